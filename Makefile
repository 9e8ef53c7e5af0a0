# The front door. Each target does its own set-up; all of them keep what they make in target/ and out/.
#   make run                            builds, boots the demo in QEMU, leaves you at a prompt of kelsonctl
#   make test                           every test: unit, PID namespace, real boots
#   make test-long                      what takes longer: 100,000 random sequences; a thousand checks for ten minutes; the release before this one, upgraded and back; all boots, with each of two versions of containerd; the tutorial; five daemons and seven faults (docs/visit.md); make chaos
#   make chaos                          faults in PID 1, hostile surroundings and power cuts, again and again: the table of docs/reliability.md
#   make image [CONFIG=DIR] [IMAGES=DIR] out/vmlinuz and out/initramfs.zst, the demo's or your own services and their images
#   make simulate [SEEDS=N]             N random sequences (100,000) through the state machine, in which PID 1 dies at any point and goes on
#   make fuzz                           libFuzzer on all that reads the words of others, ten minutes in all: docs/fuzzing.md
#   make pictures                       docs/img, from running machines
#   make docs                           a book of docs/ in out/book; hack/docs --renew makes anew what is generated of it
#   make bench                          beside a bare C loop, s6 and runit: one table; on a quiet machine, as root
#   make check                          format, clippy, unit tests and layers, in some minutes: before each commit
#   make lint                           rustfmt, clippy, shellcheck, protobuf, directions of imports, words, links and schemas of the documents

.PHONY: run test test-long chaos image simulate bench fuzz lint check docs deps pictures
.DEFAULT_GOAL := run

export CONFIG IMAGES SEEDS

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

simulate:
	@hack/simulate

fuzz: deps
	@hack/fuzz

bench: image
	@hack/bench --record

lint: deps
	@hack/lint

check: deps
	@hack/check

docs:
	@hack/docs

pictures: image
	@out/venv/bin/python hack/pictures
