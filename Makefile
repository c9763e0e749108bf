# emb: build, test, install.  `make help` lists the targets.
#
# Objects go to $(OUT)/<variant>/, products of the release variant to $(OUT).
# A variant is a set of compiler flags: release, asan, tsan.  A change of
# compiler or flags rebuilds what depends on it.

# As many jobs as there are cores, unless told otherwise (make -j1).
ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(shell nproc)
endif

OUT     ?= build
VARIANT ?= release
RUNS    ?= 100000
PREFIX  ?= /usr/local
LIBDIR  ?= $(PREFIX)/lib
EXTDIR  ?= $(LIBDIR)/sqlite3-emb

VERSION := $(shell sed -n 's/.*EMB_VERSION "\(.*\)"/\1/p' engine/emb.h)

WARNINGS := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes \
            -Wmissing-prototypes -Wvla -Wundef -Werror
CFLAGS   ?= -O2 -g
# No fused operations: what an optimizer computes is the same on every machine.
ALL_CFLAGS = -std=c11 -D_GNU_SOURCE $(CFLAGS) -ffp-contract=off -fPIC \
             -fvisibility=hidden $(WARNINGS) $(SANITIZE)
LDLIBS   := -luring -lxxhash -lzstd -lpthread -lm
TCL_CFLAGS ?= -I/usr/include/tcl8.6
TCL_LIBS   ?= -ltcl8.6

SANITIZE_release :=
SANITIZE_asan := -fsanitize=address,undefined -fno-sanitize-recover=all \
                 -fno-omit-frame-pointer
SANITIZE_tsan := -fsanitize=thread
SANITIZE_fuzz := -fsanitize=fuzzer-no-link,address,undefined \
                 -fno-sanitize-coverage=trace-cmp \
                 -fno-sanitize-recover=all -fno-omit-frame-pointer
# With seeded defects that a variable of the environment turns on.
SANITIZE_defect := -DEMB_DEFECTS
SANITIZE := $(SANITIZE_$(VARIANT))

# A sanitizer's functions come with the program that loads emb.so.
DEFINED_release := -Wl,--no-undefined
DEFINED := $(DEFINED_$(VARIANT))

O := $(OUT)/$(VARIANT)
P := $(if $(filter release,$(VARIANT)),$(OUT),$(O))

ENGINE_C := $(wildcard engine/*/*.c)
ENGINE_C += $(if $(filter defect,$(VARIANT)),tests/lib/defect.c)
EXT_C    := $(wildcard ext/*.c)
LIB_C    := $(wildcard tests/lib/*.c)
UNIT_C   := $(wildcard tests/unit/*.c tests/unit/*/*.c)
# Threads of their own, or the engine's.
CONCURRENT_C := $(if $(UNIT_C),$(shell grep -lE \
                  'pthread_create|thread_start|emb_open' $(UNIT_C)))
# These work step by step in one thread; and children of a process with threads,
# that start threads, are more than ThreadSanitizer knows.
CONCURRENT_C := $(filter-out %/evict.c %/fail_files.c %/fail_io.c \
                  %/fail_memory.c %/power.c %/power_files.c %/rot.c \
                  %/recover_damage.c %/rot_pages.c %/fork_sql.c,$(CONCURRENT_C))
SQL_TESTS := $(wildcard tests/sql/*.test)
# A model has no variants.
MODELS    := $(if $(filter release,$(VARIANT)),tests/model/spin.sh)

ENGINE_O := $(ENGINE_C:%.c=$(O)/%.o)
EXT_O    := $(EXT_C:%.c=$(O)/%.o)
CORE_O   := $(EXT_C:%.c=$(O)/core/%.o)
LIB_O    := $(LIB_C:%.c=$(O)/%.o)
UNIT     := $(UNIT_C:tests/%.c=$(O)/%)
CONCURRENT := $(CONCURRENT_C:tests/%.c=$(O)/%)

# A fuzzer is linked with libFuzzer, or with replay.c to run on its corpus.
FUZZ_LIB_C := $(wildcard tests/fuzz/lib_*.c)
FUZZ_C     := $(filter-out $(FUZZ_LIB_C) tests/fuzz/replay.c, \
                $(wildcard tests/fuzz/*.c))
REPLAY     := $(FUZZ_C:tests/%.c=$(O)/%)
FUZZERS    := $(FUZZ_C:tests/fuzz/%.c=$(O)/fuzzer/%)
FUZZ_LIB_O := $(FUZZ_LIB_C:%.c=$(O)/%.o)

# The programs of the example of online training; the rest is in all of them.
ONLINE_MAIN := experiment trainer server
ONLINE_C   := $(wildcard sql/online/*.c)
ONLINE_O   := $(patsubst %.c,$(O)/%.o,$(wildcard sql/lib/*.c) \
                $(filter-out $(ONLINE_MAIN:%=sql/online/%.c),$(ONLINE_C)))
ONLINE     := $(ONLINE_MAIN:%=$(P)/online/%)

BENCH_C    := $(wildcard bench/*.c)
BENCH_O    := $(BENCH_C:%.c=$(O)/%.o)
BENCH_LIBS := -lrocksdb -llmdb -lsqlite3

# A program with internal symbols in reach: everything, as for static linking.
INTERNAL := $(O)/internal.a

# The commands themselves are shown with V=1.
Q := $(if $(V),,@)

RUN = EMB_FIXTURE=$(P)/testfixture EMB_SO=$(P)/emb.so tclsh tests/run.tcl

# All cores, unless -j says else.
MAKEFLAGS += --no-print-directory
ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(shell nproc)
endif

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDARY:

## Build
all: ## build emb.so, libemb.a and the test programs (default)
all: $(P)/emb.so $(P)/libemb.a $(P)/testfixture $(UNIT) $(REPLAY) $(ONLINE)

$(P)/emb.so: $(ENGINE_O) $(EXT_O) ext/emb.map
	@echo "  LINK   $@"
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -shared $(DEFINED) \
	  -Wl,--version-script=ext/emb.map -o $@ $(ENGINE_O) $(EXT_O) $(LDLIBS)

# The engine for C programs: one object, in which only emb.h is visible.
$(P)/libemb.a: $(ENGINE_O)
	@echo "  AR     $@"
	@mkdir -p $(@D)
	$(Q)$(LD) -r -o $(O)/libemb.o $(ENGINE_O)
	$(Q)objcopy --wildcard --keep-global-symbol='emb_*' $(O)/libemb.o
	$(Q)rm -f $@
	$(Q)$(AR) rcs $@ $(O)/libemb.o

$(INTERNAL): $(ENGINE_O) $(CORE_O) $(LIB_O)
	@echo "  AR     $@"
	$(Q)rm -f $@
	$(Q)$(AR) rcs $@ $^

$(P)/testfixture: $(O)/tests/testfixture.o
	@echo "  LINK   $@"
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -rdynamic -o $@ $< $(TCL_LIBS) -ldl

$(UNIT): $(O)/unit/%: $(O)/tests/unit/%.o $(INTERNAL)
	@echo "  LINK   $@"
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $< $(INTERNAL) $(LDLIBS) \
	  -lsqlite3 -ldl

$(REPLAY): $(O)/fuzz/%: $(O)/tests/fuzz/%.o $(O)/tests/fuzz/replay.o \
  $(FUZZ_LIB_O) $(INTERNAL)
	@echo "  LINK   $@"
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS) -lsqlite3 -ldl

$(FUZZERS): $(O)/fuzzer/%: $(O)/tests/fuzz/%.o $(FUZZ_LIB_O) $(INTERNAL)
	@echo "  LINK   $@"
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -fsanitize=fuzzer $(LDFLAGS) -o $@ $^ $(LDLIBS) \
	  -lsqlite3 -ldl

$(ONLINE): $(P)/online/%: $(O)/sql/online/%.o $(ONLINE_O)
	@echo "  LINK   $@"
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ -lsqlite3 -lm -lpthread

$(P)/bench/bench: $(BENCH_O) $(P)/libemb.a
	@echo "  LINK   $@"
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(BENCH_LIBS) $(LDLIBS)

# As make demo compiles it.
$(P)/bench/train: $(wildcard sql/wordnet/*.[ch] sql/lib/*.[ch])
	@echo "  CC     $@"
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE -O3 -ffp-contract=fast -Wall -Wextra -Wshadow \
	  -Wconversion -Werror -o $@ $(filter %.c,$^) -lsqlite3 -lm -lpthread

$(O)/core/%.o: %.c $(O)/settings
	@echo "  CC     $@"
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -DSQLITE_CORE -MMD -MP -c -o $@ $<

$(O)/tests/testfixture.o: ALL_CFLAGS += $(TCL_CFLAGS)
$(O)/tests/%.o: ALL_CFLAGS += -DSQLITE_CORE

$(O)/%.o: %.c $(O)/settings
	@echo "  CC     $@"
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

# Holds what the objects were made with; touched only when that changes.
SETTINGS := $(CC) $(ALL_CFLAGS) $(LDFLAGS) $(TCL_CFLAGS)
$(O)/settings: always
	@mkdir -p $(@D)
	@echo '$(SETTINGS)' | cmp -s - $@ || echo '$(SETTINGS)' > $@

-include $(shell find $(O) -name '*.d' 2>/dev/null)

## Test
test: ## install what the tests need, build, run all tests
	tests/install-deps.sh build test
	$(MAKE) check

check: all ## run all tests
	@CC="$(CC)" $(RUN) $(UNIT) $(REPLAY) $(SQL_TESTS) $(MODELS)

check-unit: $(UNIT) ## run the unit tests in C
	@$(RUN) $(UNIT)

check-sql: $(P)/emb.so $(P)/testfixture ## run the Tcl suite over SQL
	@$(RUN) $(SQL_TESTS)

check-fuzz: $(REPLAY) ## run the fuzzers on their corpora
	@$(RUN) $(REPLAY)

fuzz: ## build the fuzzers with libFuzzer (needs clang)
	tests/install-deps.sh build fuzz
	$(MAKE) VARIANT=fuzz CC=clang fuzzers

fuzz-run: fuzz ## run each fuzzer RUNS times (default 100000)
	@OUT=$(OUT) RUNS=$(RUNS) tests/fuzz/run.sh

fuzzers: $(FUZZERS)

check-model: ## explore the models with Spin
	@CC="$(CC)" $(RUN) tests/model/spin.sh

check-newer: all ## run the Tcl suite with a recent SQLite (needs npm)
	@OUT=$(OUT) tests/newer-sqlite.sh $(RUN) $(SQL_TESTS)

asan: ## run all tests under AddressSanitizer and UBSan
	$(MAKE) VARIANT=asan check

check-concurrent: $(CONCURRENT) ## run the unit tests that use threads
	@$(RUN) $(CONCURRENT)

tsan: ## run the unit tests that use threads under ThreadSanitizer
	$(MAKE) VARIANT=tsan check-concurrent

check-defects: ## seed defects one by one and demand that a suite notices
	$(MAKE) VARIANT=defect all
	OUT=$(OUT)/defect tests/defects.sh

soak: ## run the long forms with new seeds for HOURS hours (default 1)
	tests/install-deps.sh build test
	$(MAKE) all fuzz
	$(MAKE) VARIANT=defect all
	HOURS=$(or $(HOURS),1) OUT=$(OUT) tests/soak.sh

lint: $(P)/emb.so ## check format, order of folders, symbols, system calls
	@OBJECTS=$(O) EMB_SO=$(P)/emb.so tests/lint.sh

format: ## format all C as lint wants it
	tests/lint.sh -format

demo: ## install what it needs, build, train on WordNet through SQL
	tests/install-deps.sh build demo
	$(MAKE) $(P)/emb.so
	sql/wordnet/demo.sh

online: ## install what it needs, build, measure online training (minutes)
	tests/install-deps.sh build
	$(MAKE) $(P)/emb.so $(ONLINE)
	OUT=$(OUT) sql/online/run.sh full

online-quick: ## the same with small sizes (20 seconds)
	tests/install-deps.sh build
	$(MAKE) $(P)/emb.so $(ONLINE)
	OUT=$(OUT) sql/online/run.sh quick

online-serve: ## install what it needs, build, train in one process, serve in another
	tests/install-deps.sh build online
	$(MAKE) $(P)/emb.so $(ONLINE)
	OUT=$(OUT) sql/online/serve.sh

bench: ## measure everything against LMDB, RocksDB and SQLite (45 minutes)
	tests/install-deps.sh build bench
	$(MAKE) $(P)/emb.so $(P)/bench/bench $(P)/bench/train
	OUT=$(OUT) bench/run.sh

bench-quick: ## the same with small sizes (two minutes)
	tests/install-deps.sh build bench
	$(MAKE) $(P)/emb.so $(P)/bench/bench
	OUT=$(OUT) bench/run.sh --quick

## Install
install: $(P)/emb.so $(P)/libemb.a ## install to PREFIX (default /usr/local), below DESTDIR
	install -d $(DESTDIR)$(EXTDIR) $(DESTDIR)$(LIBDIR)/pkgconfig \
	  $(DESTDIR)$(PREFIX)/include
	install -m 755 $(P)/emb.so $(DESTDIR)$(EXTDIR)/emb.so
	install -m 644 $(P)/libemb.a $(DESTDIR)$(LIBDIR)/libemb.a
	install -m 644 engine/emb.h $(DESTDIR)$(PREFIX)/include/emb.h
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' \
	  -e 's|@EXTDIR@|$(EXTDIR)|' -e 's|@VERSION@|$(VERSION)|' emb.pc.in \
	  > $(DESTDIR)$(LIBDIR)/pkgconfig/emb.pc

clean: ## remove all that was built
	rm -rf $(OUT)

help: ## this list
	@awk -F ':.*## ' '/^## /{printf "%s:\n", substr($$0, 4)} \
	  /^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' Makefile

.PHONY: all always test check check-unit check-sql check-model check-newer \
        check-concurrent asan tsan check-defects check-fuzz fuzz fuzz-run \
        fuzzers soak lint format demo online online-quick online-serve bench \
        bench-quick install clean help
