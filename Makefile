# Roam's one Makefile. `make` or `make help` lists every target.
#
# `make demo` and `make test` start from a fresh Debian 12 with nothing but
# git, make and root: build/setup installs what they need and says what it did.
# Every Go command runs through build/with-go, which finds Go (PATH, then
# /usr/local/go/bin, then Debian's versioned directories) and checks its age.

SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS   += --no-print-directory

GO      := build/with-go go
VERSION := $(shell build/version 2>/dev/null || echo devel)
LDFLAGS := -s -w -X main.version=$(VERSION)

# No cgo: the binaries run on any distribution. No VCS stamp: git refuses one
# in a checkout of another owner, and the version is passed in anyway.
export CGO_ENABLED := 0
BUILDFLAGS := -trimpath -buildvcs=false -ldflags '$(LDFLAGS)'

# The clang that the committed BPF objects are made with (bpf2go reads it).
export BPF2GO_CC ?= clang-14

# What the targets take: make demo ARGS='--preset quick', make lab EXP=NAME.
ARGS      ?=
EXP       ?=
TESTFLAGS ?=
PKGS      ?= ./...
PURE      ?= . ./wire/... ./naming/... ./ilnp/... ./tcpassist/... ./multipath/... ./flowrule/... ./sched/... ./observer/... \
	./sbr/... \
	./lab/result ./lab/stats ./lab/packets ./lab/exp/exptest
LAB_MINUTES ?= 25
FUZZTOTAL ?= 1h
SOAK_HOURS ?= 24
SOAK_HOSTS ?= 1000
SOAK_MOVES ?= 100
SEED      ?= 1
BENCH     ?= .
RESULTS   ?= $(OUT)/results.json
KERNELS   ?= 6.1 6.12
STEP      ?=
PREFIX    ?= /usr/local
DESTDIR   ?=
SHARE      = $(PREFIX)/share
ARCHES    ?= amd64 arm64
OUT       ?= out

.PHONY: help build demo test test-ready test-unit test-priv test-kernels test-guest test-replay test-race test-mutants \
	test-faults release-check bench results lab generate \
	generate-check fuzz soak lint scorecard setup-build setup-demo setup-lab setup-test setup-kernels \
	setup-guest \
	install uninstall deb clean

help: ## list every target (this list)
	@echo 'Roam: sessions that survive moves, on a stock kernel. Targets:'
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  \1\t\2/p' Makefile | expand -t 20
	@echo 'Settings: ARGS, EXP, PKGS, TESTFLAGS, LAB_MINUTES, FUZZTOTAL, SOAK_HOURS, SOAK_HOSTS, SOAK_MOVES, SEED, BENCH, RESULTS, KERNELS, STEP, PREFIX, DESTDIR, ARCHES, OUT'

build: setup-build ## compile bin/roam, bin/roamd and bin/roam-lab (needs Go, no clang)
	@mkdir -p bin
	$(GO) build $(BUILDFLAGS) -o bin/ ./cmd/...

demo: setup-demo build ## install what is missing, build, run the quickstart experiment (root)
	@mkdir -p $(OUT)
	@ROAM_LAB_JUDGE=$${ROAM_LAB_JUDGE-correctness} bin/roam-lab run quickstart --json $(OUT)/quickstart.json --report $(OUT)/quickstart.html $(ARGS)

test: test-ready ## install what is missing, vet, compare generated files, run all tests (root)
	$(GO) test -count=1 -timeout 30m $(TESTFLAGS) $(PKGS)

test-ready: setup-test build ## all that test does before it runs the tests
	$(GO) vet $(PKGS)
	@build/generate-check

test-unit: ## run the tests that need no root and no packages (rings 1 and 2)
	$(GO) test $(TESTFLAGS) . ./wire/... ./naming/... ./ilnp/... ./tcpassist/... ./sim/... ./internal/house/...

test-priv: setup-test build ## run all tests as root; a skip counts as a failure (rings 1 to 3)
	ROAM_EXPECT_ALL=1 $(GO) test -count=1 -timeout 30m $(TESTFLAGS) $(PKGS)

test-kernels: setup-kernels build ## run what stands next to the kernel in guests with other kernels (KERNELS)
	@TESTFLAGS='$(TESTFLAGS)' build/kernels/test $(KERNELS)

test-guest: setup-guest build ## run the package, link managers, VLAN and bond in a guest with systemd (root; STEP=part)
	@STEP='$(STEP)' TESTFLAGS='$(TESTFLAGS)' build/guest/test

test-replay: setup-kernels build ## hand off in guests with virtual time, and compare two of one seed byte by byte
	$(GO) test -tags replay -count 1 -timeout 0 -v -run '^TestSeedReplays$$' $(TESTFLAGS) ./lab/runner

bench: setup-test build ## run the benchmarks, keep figures in OUT/results.json (root; BENCH=regexp PKGS=packages RESULTS=file)
	@mkdir -p $(OUT)
	ROAM_RESULTS=$(abspath $(RESULTS)) $(GO) test -run '^$$' -bench '$(BENCH)' -timeout 0 $(TESTFLAGS) $(PKGS)

results: ## draw the table of docs/results.md from docs/results.json, which make bench RESULTS=docs/results.json writes
	$(GO) test -run '^TestResultsAreDrawn$$' ./internal/testutil -draw

test-race: setup-test ## run the pure packages' tests with the race detector, in random order
	CGO_ENABLED=1 CC=clang-14 $(GO) test -race -shuffle=on $(TESTFLAGS) $(PURE)

test-mutants: setup-build ## plant faults in what judges measurements; fail if tests do not notice 98 % (ARGS='-only PATH'; ARGS=-keys: of keys, all)
	$(GO) run ./internal/house/mutants $(ARGS)

test-faults: setup-test ## plant the known faults of internal/house/faults, one at a time; fail if a test does not catch its own
	$(GO) run ./internal/house/faults $(ARGS)

lab: setup-lab build ## run every experiment quickly (LAB_MINUTES) and draw one page over all, or one: EXP=name ARGS='--preset paper'
	@if [ -z "$(EXP)" ]; then LAB_MINUTES=$(LAB_MINUTES) build/lab $(OUT)/lab; else \
		mkdir -p $(OUT); bin/roam-lab run $(EXP) --json $(OUT)/$(EXP).json \
			--report $(OUT)/$(EXP).html $(ARGS); fi

generate: setup-test ## compile the BPF C anew and write the Go files that go with it
	$(GO) generate ./...

generate-check: setup-test ## fail if the committed generated files are not what generate makes
	@build/generate-check

fuzz: setup-build ## run every fuzz target in turn, all within FUZZTOTAL (PKGS=packages to choose)
	@build/fuzz $(FUZZTOTAL) $(PKGS)

release-check: setup-lab setup-test setup-guest build ## weekly: standard presets, faults, benchmarks, fuzzing, soak, guests, kernels; one page, and an archive, in OUT
	@build/release-check $(OUT)/release

soak: setup-build ## let SOAK_HOSTS simulated hosts move and fail for SOAK_HOURS of virtual time, and 12 * SOAK_MOVES pairs, from SEED
	SOAK_HOURS=$(SOAK_HOURS) SOAK_HOSTS=$(SOAK_HOSTS) SOAK_MOVES=$(SOAK_MOVES) SEED=$(SEED) \
		$(GO) test -count 1 -timeout 0 -v -run '^Test(Soak|HardMoves)$$' $(TESTFLAGS) ./sim/ilnphost

lint: setup-build ## vet, a build for 32-bit ARM, the house rules (gofmt among them), the style scorecard
	$(GO) vet $(PKGS)
	GOARCH=arm GOARM=7 $(GO) build -o /dev/null ./cmd/...
	$(GO) test ./internal/house/...
	@$(GO) run ./internal/house/scorecard

scorecard: setup-build ## print the style scorecard
	@$(GO) run ./internal/house/scorecard

setup-build: ## install what a build needs: Go
	@build/setup build

setup-demo: ## install what the experiments need
	@build/setup demo

setup-lab: ## install what all experiments need, and a browser for their pages
	@build/setup lab

setup-test: ## install what the tests need: clang 14 and the tools of the lab
	@build/setup test

setup-kernels: setup-build ## install what it takes to run tests on other kernels
	@build/setup kernels

setup-guest: setup-kernels ## install what it takes to make a Debian with systemd for a guest
	@build/setup guest

install: build ## copy binaries, man pages, completions and the systemd unit, make the group roam (PREFIX, DESTDIR)
	install -d $(DESTDIR)$(PREFIX)/sbin $(DESTDIR)$(PREFIX)/bin
	install -m 0755 bin/roamd $(DESTDIR)$(PREFIX)/sbin/roamd
	install -m 0755 bin/roam bin/roam-lab $(DESTDIR)$(PREFIX)/bin/
	for page in docs/man/*.[58]; do [ -e "$$page" ] || continue; \
		install -D -m 0644 "$$page" "$(DESTDIR)$(PREFIX)/share/man/man$${page##*.}/$$(basename "$$page")"; done
	install -d $(DESTDIR)$(SHARE)/bash-completion/completions $(DESTDIR)$(SHARE)/zsh/site-functions \
		$(DESTDIR)$(SHARE)/fish/vendor_completions.d
	for program in roam roam-lab; do \
		bin/$$program completion bash >$(DESTDIR)$(SHARE)/bash-completion/completions/$$program && \
		bin/$$program completion zsh >$(DESTDIR)$(SHARE)/zsh/site-functions/_$$program && \
		bin/$$program completion fish >$(DESTDIR)$(SHARE)/fish/vendor_completions.d/$$program.fish || exit 1; done
	if [ -z "$(DESTDIR)" ]; then getent group roam >/dev/null || groupadd --system roam; fi
	install -d $(DESTDIR)/etc/systemd/system
	sed 's|@SBINDIR@|$(PREFIX)/sbin|; s|@BINDIR@|$(PREFIX)/bin|' packaging/systemd/roamd.service \
		> $(DESTDIR)/etc/systemd/system/roamd.service
	if [ -z "$(DESTDIR)" ] && [ -d /run/systemd/system ]; then systemctl daemon-reload; fi

uninstall: ## give the host back, and remove what install copied; /etc/roam, /var/lib/roam and the group stay (PREFIX, DESTDIR)
	@if [ -z "$(DESTDIR)" ]; then \
		if [ -d /run/systemd/system ]; then systemctl --quiet disable --now roamd 2>/dev/null || true; fi; \
		if [ -x $(PREFIX)/bin/roam ]; then $(PREFIX)/bin/roam down || \
			echo 'the host could not be restored: after a reboot nothing of Roam is left' >&2; fi; fi
	for program in roam roam-lab; do \
		rm -f $(DESTDIR)$(SHARE)/bash-completion/completions/$$program $(DESTDIR)$(SHARE)/zsh/site-functions/_$$program \
			$(DESTDIR)$(SHARE)/fish/vendor_completions.d/$$program.fish; done
	rm -f $(DESTDIR)$(PREFIX)/sbin/roamd $(DESTDIR)$(PREFIX)/bin/roam $(DESTDIR)$(PREFIX)/bin/roam-lab $(DESTDIR)/etc/systemd/system/roamd.service
	for page in docs/man/*.[58]; do rm -f "$(DESTDIR)$(PREFIX)/share/man/man$${page##*.}/$$(basename "$$page")"; done
	if [ -z "$(DESTDIR)" ] && [ -d /run/systemd/system ]; then systemctl daemon-reload; fi

deb: build ## build the Debian packages roam and roam-lab for ARCHES into OUT (needs dpkg-deb)
	@for arch in $(ARCHES); do \
		GOARCH=$$arch $(GO) build $(BUILDFLAGS) -o $(OUT)/bin-$$arch/ ./cmd/... || exit 1; \
		for package in roam roam-lab; do \
			ROAM_DEB_HOST=bin packaging/deb/build '$(VERSION)' $$arch $(OUT)/bin-$$arch $(OUT) $$package || exit 1; done; done
	@if command -v lintian >/dev/null; then lintian --allow-root --fail-on error $(OUT)/*.deb; fi

clean: ## remove what the other targets made in this directory
	rm -rf bin $(OUT)
