# On a fresh Debian 12 with git and make:
#   make run     builds and shows the main job on real input
#   make check   builds and runs the tests
# What is missing is installed by apt (tools/packages.txt), through sudo for an
# ordinary user. The build itself is meson's: meson.build.
.POSIX:
.SUFFIXES:
.PHONY: build build-asan build-clang build-fuzz run check check-all check-vm \
	fuzz bench soak install uninstall clean

PREFIX = /usr
DESTDIR =
FUZZ_SECONDS = 60
# One at a time: ninja does not guard a build directory itself.
NINJA = flock meson.build ninja --quiet

build:
	@tools/install-packages build
	@test -f build/build.ninja || echo "building; the first time takes half a minute"
	@test -f build/build.ninja || meson setup build >/dev/null & \
	test -f build-static/build.ninja || meson setup build-static \
		--cross-file tools/musl.ini -Dstatic=true >/dev/null && wait $$!
	@$(NINJA) -C build
	@$(NINJA) -C build-static
	@tools/gather build build-static

# The same with address and undefined-behaviour sanitizers, in build-asan/.
build-asan:
	@tools/install-packages build
	@test -f build-asan/build.ninja || meson setup build-asan \
		-Db_sanitize=address,undefined >/dev/null
	@$(NINJA) -C build-asan
	@tools/gather build-asan

build-clang:
	@tools/install-packages build check-all
	@test -f build-clang/build.ninja || \
		CC=clang meson setup build-clang >/dev/null
	@$(NINJA) -C build-clang all tests

build-fuzz:
	@tools/install-packages build check-all
	@test -f build-fuzz/build.ninja || CC=clang meson setup build-fuzz \
		-Dfuzz=true -Db_sanitize=address,undefined -Db_lundef=false \
		-Dc_args=-fsanitize=fuzzer-no-link >/dev/null
	@$(NINJA) -C build-fuzz

run: build
	@examples/run

check: build
	@tools/install-packages check
	@tools/check-layers
	@tools/check-size
	@tools/check-requirements
	@tests/run

check-all: build build-clang build-asan
	@tools/install-packages check check-all
	@tools/check-layers
	@tools/check-size
	@tools/check-requirements
	@tests/run --all

# libFuzzer on each harness in turn; what it finds is kept in build-fuzz/.
fuzz: build-fuzz
	@for harness in build-fuzz/tests/fuzz/*_fuzz; do \
		name=$${harness##*/} && name=$${name%_fuzz} && \
		mkdir -p build-fuzz/corpus/$$name && \
		$$harness -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 \
			-artifact_prefix=build-fuzz/$$name- \
			build-fuzz/corpus/$$name tests/fuzz/corpus/$$name || \
			exit 1; \
	done

check-vm: build
	@tools/install-packages check-vm
	@tests/vm/run

bench: build
	@tools/install-packages bench
	@bench/run

soak: build
	@tests/soak/run

install: build
	@DESTDIR='$(DESTDIR)' PREFIX='$(PREFIX)' tools/install

uninstall:
	@DESTDIR='$(DESTDIR)' PREFIX='$(PREFIX)' tools/install --remove

clean:
	rm -rf build build-static build-asan build-clang build-fuzz build-vm
