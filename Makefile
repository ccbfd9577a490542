# Entry points; the work is in scripts/. "make demo" and "make test" run from a fresh clone.

help:  ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

setup:  ## install missing packages and create .venv
	@scripts/setup.sh

build: setup  ## build the release preset: library, nf, benchmarks
	@scripts/build.sh release

demo: build  ## build, then train a small model with and without nf.attach
	@scripts/demo.sh

tour: build  ## build, then demonstrate the codecs and the all-reduce
	@scripts/tour.sh

test: setup  ## the full pre-merge suite
	@scripts/test.sh

format:  ## format the sources in place
	@scripts/format.sh

lint: setup  ## check format and layers, run clang-tidy
	@scripts/lint.sh

fuzz: setup  ## fuzz the decoders for FUZZ_SECONDS (30)
	@scripts/test.sh fuzz

chaos: build  ## kill, stop and resume ranks of real jobs for CHAOS_SECONDS (60)
	@PYTHONPATH=python:python/tests .venv/bin/python -m chaos --seconds $${CHAOS_SECONDS:-60}

clean:  ## remove the build folders
	rm -rf build

.PHONY: help setup build demo tour test format lint fuzz chaos clean
