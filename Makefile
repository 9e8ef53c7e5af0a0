# The entry points. Each target installs what it needs; results are in target/ and out/.
#   make run                            builds, boots the demo in QEMU and opens a prompt of kelsonctl
#   make test                           every test: unit, PID namespace, real boots
#   make test-long                      tests that take longer: 100,000 random sequences; 10,000 hosts of a fleet; a thousand checks for ten minutes; an upgrade from the previous release and back; a small init; all boots with each of two versions of containerd; units of Debian, also beside systemd; the tutorial; docs/visit.md; make chaos
#   make chaos                          hundreds of faults in PID 1, hostile environments and power cuts: the table of docs/reliability.md
#   make image [CONFIG=DIR] [IMAGES=DIR] [CONTAINERD=1.6] [NFT=yes] out/vmlinuz and out/initramfs.zst with the demo, or with your own services and their images; with containerd and nft, or without
#   make small [FEATURES=LIST]          out/small/init for guests and containers, without the parts that a build may leave out: docs/howto/small.md
#   make simulate [SEEDS=N]             N random sequences (100,000) through the state machine, in which PID 1 dies at any point and continues
#   make fuzz                           libFuzzer on every parser of external input, ten minutes in all: docs/fuzzing.md
#   make costs                          measures what does not depend on load (system calls, wake-ups, sizes) against docs/costs.md; make test does it, too
#   make pictures                       writes docs/img from running machines
#   make docs                           a book of docs/ in out/book; hack/docs --renew regenerates the generated pages
#   make bench                          compares with dinit, s6, runit and others: one table; needs a quiet machine and root
#   make check                          format, clippy, unit tests and layers, in some minutes; run it before each commit
#   make lint                           rustfmt, clippy, shellcheck, protobuf, layers, words, links and schemas of the documents

.PHONY: run test test-long chaos image simulate small bench costs fuzz lint check docs deps pictures
.DEFAULT_GOAL := run

export CONFIG CONTAINERD FEATURES IMAGES NFT SEEDS

deps:
	@hack/deps

image: deps
	@hack/image

run: image
	@hack/run

test: image
	@hack/test

test-long: image
	@hack/test-long

chaos: image
	@hack/chaos --record

small: deps
	@hack/small

simulate:
	@hack/simulate

fuzz: deps
	@hack/fuzz

bench: image
	@hack/bench --record

costs: image
	@hack/faults
	@out/venv/bin/python hack/costs

lint: deps
	@hack/lint

check: deps
	@hack/check

docs:
	@hack/docs

pictures: image
	@out/venv/bin/python hack/pictures
