# make check is what to run before every commit; bash .ci/run is everything.

GO       ?= go
SOAK     ?= 1h
CAMPAIGN ?=
BENCH    ?= .
FOR      ?= 10s
ROW      ?= .

.PHONY: check test race soak hostile bench microbench syscalls gen

check: ## format, vet, lint, generated code, and the tests
	@test -z "$$(gofmt -l .)" || { gofmt -l .; exit 1; }
	$(GO) vet ./...
	.ci/lint
	@if command -v capnp >/dev/null; then $(GO) run ./capnp/gen -check && $(GO) run ./capnp/gen -check vat/internal/testproto && $(GO) run ./capnp/gen -check tests/interop/order; \
	else echo "capnp is not installed: whether the generated code is current is left to .ci/run"; fi
	$(GO) test ./...

test:
	$(GO) test ./...

race:
	.ci/race ./...

soak: ## tests that find more the longer they run, each CAMPAIGN (kills conformance races links fuzz) for SOAK
	SOAK=$(SOAK) .ci/soak $(CAMPAIGN)

hostile: ## an honest guest beside each attack on what guests share, FOR so long each; ROW is a pattern of names
	$(GO) test -v -count=1 -timeout 2h -run '^TestHostileFair$$/$(ROW)' ./tests -hostile.for=$(FOR)

bench: ## capd, a floor and its peers, side by side; BENCHFLAGS=-quick for a smoke run, -help for the rest
	cd bench && $(GO) run . $(BENCHFLAGS)

microbench: ## the benchmarks in the packages' tests that match BENCH
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem ./...

syscalls: ## the system calls that capd serve makes for one call; needs Linux and strace
	cd bench && $(GO) run ./syscalls

gen: ## schema/*.capnp -> capnp/*.capnp.go; needs the schema compiler (Debian: apt install capnproto)
	$(GO) run ./capnp/gen
	$(GO) run ./capnp/gen vat/internal/testproto
	$(GO) run ./capnp/gen tests/interop/order
