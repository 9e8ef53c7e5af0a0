/* What the services of a measurement report to: one file that all of them and the driver map.
 * The driver's side is tests/src/bin/kelson-bench/board.rs. */
#ifndef BOARD_H
#define BOARD_H

#include <stdatomic.h>
#include <stdint.h>

struct slot {
    _Atomic uint64_t started; /* CLOCK_MONOTONIC at the first line of main, in ns */
    _Atomic uint32_t pid;     /* in its own PID namespace */
    _Atomic uint32_t runs;    /* how often it has started */
};

struct board {
    _Atomic uint32_t reached; /* futex: 1 once count has come to target */
    _Atomic uint32_t count;   /* starts of all services together */
    _Atomic uint32_t target;
    uint32_t unused;
    struct slot slots[];
};

#endif
