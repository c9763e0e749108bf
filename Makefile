# emb: build, test, install.  `make help` lists the targets.
#
# Objects go to $(OUT)/<variant>/, products of the release variant to $(OUT).
# A variant is a set of compiler flags: release, debug, asan, tsan, fuzz, defect.
# A change of compiler or flags rebuilds what depends on it.

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
# Installed files have no debug information; STRIP= leaves it in.
STRIP   ?= strip

VERSION := $(shell sed -n 's/.*EMB_VERSION "\(.*\)"/\1/p' engine/emb.h)

# The commit, if git knows it; otherwise the source may (engine/base/commit.c).
# The checkout may belong to another user: sudo make install.
COMMIT := $(if $(wildcard .git),$(shell \
            git -c safe.directory='*' rev-parse HEAD 2>/dev/null))

WARNINGS := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes \
            -Wmissing-prototypes -Wvla -Wundef -Werror
# With less optimization gcc warns of texts that cannot be so long.  Lines are
# enough for a stack; more makes the programs three times as large.
NO_TRUNCATION := -Wno-unknown-warning-option -Wno-format-truncation
QUICK       := -O1 -g1 $(NO_TRUNCATION)
CFLAGS_asan := $(QUICK)
CFLAGS_tsan := $(QUICK)
CFLAGS_fuzz := $(QUICK)
CFLAGS   ?= $(or $(CFLAGS_$(VARIANT)),-O2 -g)
# No fused operations: an optimizer computes the same on every machine.
ALL_CFLAGS = -std=c11 -D_GNU_SOURCE $(CFLAGS) -ffp-contract=off -fPIC \
             -fvisibility=hidden -iquote . -iquote engine $(WARNINGS) $(CHECKED) \
             $(SANITIZE) $(if $(OMIT_DATA),-DEMB_OMIT_DATA)
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
# With seeded defects, which an environment variable turns on.
SANITIZE_defect := -DEMB_DEFECTS
SANITIZE := $(SANITIZE_$(VARIANT))

# How much a variant checks itself (engine/base/debug.h): CHECKS=n is a level.
CHECKS_release := 0
CHECKS_tsan    := 1
CHECKS  ?= $(or $(CHECKS_$(VARIANT)),2)
CHECKED := $(if $(filter-out 0,$(CHECKS)),-DEMB_DEBUG=$(CHECKS))

# A sanitizer's functions come with the program that loads emb.so.
DEFINED_release := -Wl,--no-undefined
DEFINED := $(DEFINED_$(VARIANT))

O := $(OUT)/$(VARIANT)
P := $(if $(filter release,$(VARIANT)),$(OUT),$(O))

ENGINE_C := $(wildcard engine/*/*.c engine/*/*/*.c)
ENGINE_C += $(if $(filter defect,$(VARIANT)),tests/lib/defect.c)
EXT_C    := $(wildcard ext/*.c ext/*/*.c ext/*/*/*.c)
HEADERS  := engine/emb.h engine/storage/pack/emb_file.h engine/data/emb_data.h
LIB_C    := $(wildcard tests/lib/*.c)
# A test program is found by its name, in whatever folder its source is.
UNIT_C   := $(shell find tests/unit tests/fault tests/concurrent tests/long \
              -name '*.c' | LC_ALL=C sort)
# OMIT_DATA=1 leaves out choosing training data (engine/data/, ext/data/), and the
# tests and examples that use it.  With a separate OUT, both builds are kept.
SQL_TESTS := $(wildcard tests/sql/*.test tests/sql/data/*.test)
FUZZ_C    := $(filter-out tests/fuzz/lib_%.c tests/fuzz/replay.c, \
               $(wildcard tests/fuzz/*.c))
ifdef OMIT_DATA
of_data    = $(shell grep -lE '(engine|ext)/data/|EMB_TEST_DATA' $1)
ENGINE_C  := $(filter-out engine/data/%,$(ENGINE_C))
EXT_C     := $(filter-out ext/data/%,$(EXT_C))
HEADERS   := $(filter-out engine/data/%,$(HEADERS))
UNIT_C    := $(filter-out $(call of_data,$(UNIT_C)),$(UNIT_C))
FUZZ_C    := $(filter-out $(call of_data,$(FUZZ_C)),$(FUZZ_C))
SQL_TESTS := $(filter-out tests/sql/data/%,$(SQL_TESTS))
endif

# Tests of assertions (tests/lib/death.h), where all are compiled in.
ifeq ($(filter 2 3,$(CHECKS)),)
UNIT_C    := $(filter-out %_valid.c,$(UNIT_C))
endif

ifneq ($(words $(UNIT_C)),$(words $(sort $(notdir $(UNIT_C)))))
$(error two test programs in C have one name)
endif
# Tests with threads of their own or of the engine; in other processes, too.
CONCURRENT_C := $(if $(UNIT_C),$(shell grep -lE \
                  'pthread_create|thread_start|emb_open|process_start|history_|\.threads' \
                  $(UNIT_C)))
# These work step by step in one thread, or measure time, or fork.  ThreadSanitizer
# does not support forked children that start threads if their parent has threads;
# processes that it should check are started by tests/lib/process_help.h.
CONCURRENT_C := $(filter-out %/evict.c %/fork_busy.c %/fail_files.c %/fail_io.c \
                  %/fail_memory.c %/power.c %/power_files.c %/rot.c \
                  %/recover_damage.c %/rot_pages.c %/fork_sql.c \
                  %/processes.c %/remote.c %/peer.c %/kill_processes.c \
                  %/hostile.c %/long_processes.c %/bank_kill.c %/takeover.c \
                  %/resize.c %/stopped_owner.c %/interrupt_time.c \
                  ,$(CONCURRENT_C))
# What tries one place after another, or repeats something random, does one in
# SHARE, each time another one.  make soak does all.
SHARE     ?= 8
export SHARE
# One in CROSSED of the suites over SQL runs once more, with another owner of its
# tables, text keys, transactions and interrupts (tests/crossings.txt), 0: none; SEED
# chooses them.  All: make test-crossed.
CROSSED   ?= 40
# A model has no variants.
MODELS    := $(if $(filter release,$(VARIANT)),tests/model/spin.sh)
# Nor the Python package.
PYTHON    := $(if $(filter release,$(VARIANT)),tests/python/pytest.sh)
# Neither has a test that adds to a copy of the source.
EXTENDED  := $(if $(filter release,$(VARIANT)),tests/extended/run.sh)

ENGINE_O := $(ENGINE_C:%.c=$(O)/%.o)
EXT_O    := $(EXT_C:%.c=$(O)/%.o)
CORE_O   := $(EXT_C:%.c=$(O)/core/%.o)
LIB_O    := $(LIB_C:%.c=$(O)/%.o)
unit_of   = $(patsubst %.c,$(O)/unit/%,$(notdir $1))
UNIT     := $(call unit_of,$(UNIT_C))
# Tests that only `make soak` runs.
SOAK_ONLY := %/long_processes
CONCURRENT := $(call unit_of,$(CONCURRENT_C))

# A fuzzer is linked with libFuzzer, or with replay.c to run on its corpus,
# tests/fuzz/corpus/NAME.tar.gz.
FUZZ_LIB_C := $(wildcard tests/fuzz/lib_*.c)
REPLAY     := $(FUZZ_C:tests/%.c=$(O)/%)
FUZZERS    := $(FUZZ_C:tests/fuzz/%.c=$(O)/fuzzer/%)
FUZZ_LIB_O := $(FUZZ_LIB_C:%.c=$(O)/%.o)

# The examples: each has its programs (EXAMPLES) and its targets.
ifdef OMIT_DATA
include $(filter-out %/online/rules.mk %/modyn/rules.mk,$(wildcard sql/examples/*/rules.mk))
else
include $(wildcard sql/examples/*/rules.mk)
endif

BENCH_C    := $(wildcard bench/*.c)
BENCH_O    := $(BENCH_C:%.c=$(O)/%.o)
BENCH_LIBS := -lrocksdb -llmdb -lsqlite3
# FAISS has no C interface in Debian; the comparison is left out if it is missing.
ifneq ($(wildcard /usr/include/faiss/IndexHNSW.h),)
BENCH_O    += $(O)/bench/finder_faiss.o
BENCH_LIBS += -lfaiss -lopenblas -lgomp -lstdc++
endif
# Does emb.h have an index of nearest neighbours?
BENCH_INDEX := -DBENCH_INDEX=$(if $(shell \
                 grep -E 'char \*([a-z, *]*)index' engine/emb.h),1,0)

# A program that can use internal symbols: links everything statically.
INTERNAL := $(O)/internal.a
# There are two hundred of them: a quick linker, if there is one, saves a minute.
LINKER   := $(if $(shell command -v ld.lld),-fuse-ld=lld)

# V=1 shows the commands themselves.
Q := $(if $(V),,@)

# The longest tests: they start first, so that none runs alone at the end, and
# `make quick` leaves them out.
SLOW := changelogs_replay.test stopped_owner processes interrupt_time fail_io rot \
        rot_pages readme.test bank_examples.test backup_sql fail_memory_sql remote \
        run.sh large.test join_random.test concurrent.test many.test store_threads \
        fail_memory torch.test long_life advice warm takeover delta_crashes \
        differential.test power_sql nearest_index remote.test power long_serve \
        nearest_rows.test nearest_saved replaced.test store_space evict install.test \
        models.test pytest.sh
SLOW_NAMES = $(SLOW:%=\%/%)
# Tests to leave out: WITHOUT="large.test many.test".
WITHOUT ?=
# Those to run, the longest first.
to_run = $(filter-out $(WITHOUT:%=\%/%),\
               $(foreach s,$(SLOW),$(filter %/$s,$1)) $(filter-out $(SLOW_NAMES),$1))

RUN = EMB_FIXTURE=$(P)/testfixture EMB_SO=$(P)/emb.so tclsh tests/run.tcl

MAKEFLAGS += --no-print-directory

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDARY:

# A build with the next protocol version, for tests of two versions that meet.
NEXT   := $(P)/next/emb.so
NEXT_O := $(patsubst %.c,$(O)/next/%.o,$(wildcard engine/remote/serve/*.c))

## Build
all: ## build emb.so and libemb.a (default)
all: $(P)/emb.so $(P)/libemb.a

all-tests: ## build these, the test programs and the C examples
all-tests: all sql-tests $(UNIT) $(REPLAY) examples

# What the suites in Tcl need, apart from examples.
sql-tests: $(P)/emb.so $(P)/testfixture $(NEXT)

examples: $(EXAMPLES)

$(P)/emb.so: $(ENGINE_O) $(EXT_O) ext/emb.map
	@echo "  LINK   $@"
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -shared $(DEFINED) \
	  -Wl,--version-script=ext/emb.map -o $@ $(ENGINE_O) $(EXT_O) $(LDLIBS)

$(NEXT): $(ENGINE_O) $(EXT_O) $(NEXT_O) ext/emb.map
	@echo "  LINK   $@"
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -shared $(DEFINED) \
	  -Wl,--version-script=ext/emb.map -o $@ $(NEXT_O) \
	  $(filter-out $(NEXT_O:$(O)/next/%=$(O)/%),$(ENGINE_O)) $(EXT_O) $(LDLIBS)

# The engine for C programs: one object, in which only the public headers are
# visible.
$(P)/libemb.a: $(ENGINE_O)
	@echo "  AR     $@"
	@mkdir -p $(@D)
	$(Q)$(LD) -r -o $(O)/libemb.o $(ENGINE_O)
	$(Q)objcopy --wildcard --keep-global-symbol='emb_*' $(O)/libemb.o
	$(Q)rm -f $@
	$(Q)$(AR) rcs $@ $(O)/libemb.o

# emb.so for the Python package runs on any distribution: nothing but glibc is
# linked dynamically.
WHEEL     := $(P)/wheel
STATIC    := uring xxhash zstd
STATIC_A  := $(foreach l,$(STATIC),$(shell $(CC) -print-file-name=lib$l.a))
# A compiler that does not find a file prints its name alone.
NO_STATIC := $(filter-out /%,$(STATIC_A))

$(WHEEL)/emb.so: $(ENGINE_O) $(EXT_O) ext/emb.map
	@echo "  LINK   $@"
	@mkdir -p $(@D)
	$(if $(NO_STATIC),@echo "The wheel needs $(NO_STATIC) of Debian's \
	$(NO_STATIC:.a=-dev): run tests/install-deps.sh build" >&2; exit 1)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -shared $(DEFINED) -Wl,--strip-all \
	  -Wl,--version-script=ext/emb.map -o $@ $(ENGINE_O) $(EXT_O) $(STATIC_A) \
	  -lpthread -lm

wheel: $(WHEEL)/emb.so ## build the Python package: build/wheel/*.whl
	@ext/python/wheel.sh $(WHEEL)

# Engine and extension as one file, for users who want to include the source.
ONE := $(OUT)/amalgamation
# In one file a local may have the name of another file's static, and a function
# that only the users of a header call is unused.
ONE_CFLAGS = $(ALL_CFLAGS) -Wno-shadow -Wno-unneeded-internal-declaration

amalgamation: ## engine and extension as one file: build/amalgamation/emb.c, and the headers
amalgamation: $(ONE)/emb.c

$(ONE)/emb.c: ext/amalgamation.tcl $(wildcard engine/*.h engine/*/*.[ch] engine/*/*.def \
                engine/*/*/*.[ch] engine/*/*/*.def ext/*.[ch] ext/*/*.[ch] ext/*/*/*.[ch]) \
                $(O)/commit
	@echo "  GEN    $@"
	$(Q)COMMIT=$(COMMIT) tclsh ext/amalgamation.tcl $(@D) \
	  $(sort $(filter-out tests/%,$(ENGINE_C)) $(EXT_C))

$(ONE)/emb.so: $(ONE)/emb.c ext/emb.map
	@echo "  CC     $@"
	$(Q)$(CC) $(ONE_CFLAGS) $(LDFLAGS) -shared -Wl,--version-script=ext/emb.map \
	  -o $@ $< $(LDLIBS)

# Without optimization and warnings, for which emb.so is compiled.
$(ONE)/linked: $(ONE)/emb.c tests/linked.c
	@echo "  CC     $@"
	$(Q)$(CC) $(ONE_CFLAGS) -O0 -w $(LDFLAGS) -DSQLITE_CORE -I$(ONE) -o $@ \
	  tests/linked.c $< $(LDLIBS) -lsqlite3

# Test programs are not linked again at each commit: they do not contain it.
$(INTERNAL): $(filter-out %/base/commit.o,$(ENGINE_O)) $(CORE_O) $(LIB_O) \
  $(O)/core/engine/base/commit.o
	@echo "  AR     $@"
	$(Q)rm -f $@
	$(Q)$(AR) rcs $@ $^

$(P)/testfixture: $(O)/tests/testfixture.o $(O)/tests/owner.o $(O)/tests/interrupt.o
	@echo "  LINK   $@"
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -rdynamic -o $@ $^ $(TCL_LIBS) -ldl

$(foreach c,$(UNIT_C),$(eval $(call unit_of,$c): $(c:%.c=$(O)/%.o)))
$(UNIT): $(INTERNAL)
	@echo "  LINK   $@"
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) $(LINKER) -o $@ $(filter %.o,$^) $(INTERNAL) \
	  $(LDLIBS) -lsqlite3 -ldl

$(REPLAY): $(O)/fuzz/%: $(O)/tests/fuzz/%.o $(O)/tests/fuzz/replay.o \
  $(FUZZ_LIB_O) $(INTERNAL)
	@echo "  LINK   $@"
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) $(LINKER) -o $@ $^ $(LDLIBS) -lsqlite3 -ldl

$(FUZZERS): $(O)/fuzzer/%: $(O)/tests/fuzz/%.o $(FUZZ_LIB_O) $(INTERNAL)
	@echo "  LINK   $@"
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -fsanitize=fuzzer $(LDFLAGS) -o $@ $^ $(LDLIBS) \
	  -lsqlite3 -ldl

# Sums may be computed in any order, so that several are computed at the same time.
$(O)/sql/lib/neural/%.o: ALL_CFLAGS += -O3 -ffast-math

$(P)/bench/bench: $(BENCH_O) $(P)/libemb.a
	@echo "  LINK   $@"
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(BENCH_LIBS) $(LDLIBS)

$(O)/bench/%.o: ALL_CFLAGS += $(BENCH_INDEX)

$(O)/bench/finder_faiss.o: bench/finder_faiss.cc $(O)/settings
	@echo "  CXX    $@"
	@mkdir -p $(@D)
	$(Q)$(CXX) -std=c++17 -D_GNU_SOURCE $(CFLAGS) -fPIC -fopenmp -Wall -Wextra \
	  -Werror -MMD -MP -c -o $@ $<

# Compiled as for make demo.
$(P)/bench/train: $(wildcard sql/examples/wordnet/*.[ch] sql/lib/*.[ch])
	@echo "  CC     $@"
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE -O3 -ffp-contract=fast -Wall -Wextra -Wshadow \
	  -Wconversion -Werror -o $@ $(filter %.c,$^) -lsqlite3 -lopenblas -lm \
	  -lpthread

$(O)/next/%.o: %.c $(O)/settings
	@echo "  CC     $@"
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -DSLOT_VERSION=1000 -MMD -MP -c -o $@ $<

$(O)/core/%.o: %.c $(O)/settings
	@echo "  CC     $@"
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -DSQLITE_CORE -MMD -MP -c -o $@ $<

$(O)/tests/testfixture.o: ALL_CFLAGS += $(TCL_CFLAGS)
# Tests include headers of tests/lib/ by name alone, so that they can move.  To
# optimize them costs more than it saves, except what all of them call.
TEST_CFLAGS = -DSQLITE_CORE -iquote tests/lib -g1 $(NO_TRUNCATION)
$(O)/tests/%.o: ALL_CFLAGS += $(TEST_CFLAGS) -O0
$(O)/tests/lib/%.o: ALL_CFLAGS += $(TEST_CFLAGS) -O1

$(O)/%.o: %.c $(O)/settings
	@echo "  CC     $@"
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

# Holds the flags the objects were made with; touched only when they change.
SETTINGS := $(CC) $(ALL_CFLAGS) $(LDFLAGS) $(TCL_CFLAGS)
$(O)/settings: always
	@[ -e $(OUT) ] || { mkdir -p $(OUT) && touch $(OUT)/.made-by-emb; }
	@mkdir -p $(@D)
	@echo '$(SETTINGS)' | cmp -s - $@ || echo '$(SETTINGS)' > $@

# The same for the commit, which one object contains.
$(O)/commit: always
	@mkdir -p $(@D)
	@echo '$(COMMIT)' | cmp -s - $@ || echo '$(COMMIT)' > $@

$(O)/engine/base/commit.o: $(O)/commit
$(O)/engine/base/commit.o: \
  ALL_CFLAGS += $(if $(COMMIT),-DEMB_COMMIT='"$(COMMIT)"')

-include $(shell find $(O) -name '*.d' 2>/dev/null)

## Test
test: ## install what the tests need, build, run all tests
	tests/install-deps.sh build test python
	$(MAKE) check

check: all-tests $(if $(PYTHON),$(if $(NO_STATIC),,$(WHEEL)/emb.so)) ## run all tests
	@CC="$(CC)" $(RUN) \
	  $(call to_run,$(filter-out $(SOAK_ONLY),$(UNIT)) $(REPLAY) $(SQL_TESTS) $(MODELS) $(EXTENDED) $(PYTHON)) \
	  $(if $(filter release,$(VARIANT)),$(if $(filter-out 0,$(CROSSED)),-crossed $(CROSSED) $(SQL_TESTS)))

quick: all-tests ## run the tests that take little time, and little of each: two minutes
	@SHARE=40 $(RUN) $(filter-out $(SLOW_NAMES) $(SOAK_ONLY),$(UNIT) $(REPLAY) $(SQL_TESTS))

check-unit: $(UNIT) ## run the unit tests in C
	@$(RUN) $(call to_run,$(filter-out $(SOAK_ONLY),$(UNIT)))

check-c: all $(UNIT) $(REPLAY) ## run the unit tests in C, and the fuzzers on their corpora
	@$(RUN) $(call to_run,$(filter-out $(SOAK_ONLY),$(UNIT))) $(REPLAY)

check-sql: sql-tests ## run the Tcl suite over SQL
	@$(RUN) $(call to_run,$(SQL_TESTS))

test-crossed: sql-tests ## run the Tcl suite with other owners of the tables, text keys, transactions, interrupts
	@$(RUN) -crossed 1 $(SQL_TESTS)

test-python: $(WHEEL)/emb.so ## build the Python package and test it, installed
	@$(RUN) tests/python/pytest.sh

check-fuzz: $(REPLAY) ## run the fuzzers on their corpora
	@$(RUN) $(REPLAY)

fuzz: ## build the fuzzers with libFuzzer (needs clang)
	tests/install-deps.sh build fuzz
	$(MAKE) VARIANT=fuzz CC=clang fuzzers

fuzz-run: fuzz ## run each fuzzer RUNS times (default 100000)
	@OUT=$(OUT) RUNS=$(RUNS) tests/fuzz/run.sh

fuzzers: $(FUZZERS)

check-model: ## explore the models with Spin
	@CC="$(CC)" SHARE=1 $(RUN) tests/model/spin.sh

check-newer: sql-tests examples ## run the Tcl suite with a recent SQLite (needs npm)
	@OUT=$(OUT) tests/newer-sqlite.sh $(RUN) $(call to_run,$(SQL_TESTS))

ONE_TESTS := rows savepoint txn vector settings gradient snapshot delta backup \
             readonly
check-amalgamation: $(ONE)/emb.so $(ONE)/linked $(P)/testfixture ## compile the amalgamation and test it, loaded and linked in
	@EMB_FIXTURE=$(P)/testfixture EMB_SO=$(ONE)/emb.so tclsh tests/run.tcl \
	  $(ONE)/linked $(ONE_TESTS:%=tests/sql/%.test)

# What a compiler refuses or warns of, without compiling: make check-syntax
# CC=clang.  VARIANT=debug includes the assertions and their tests.
SYNTAX  = xargs -P $$(nproc) -n 40 $(CC) $(ALL_CFLAGS) -fsyntax-only
check-syntax: ## check that another compiler (CC=clang) accepts all C, without warnings
	@printf '%s\n' $(ENGINE_C) $(EXT_C) $(wildcard sql/lib/*.c sql/lib/*/*.c) | $(SYNTAX)
	@printf '%s\n' $(LIB_C) $(UNIT_C) $(FUZZ_C) $(FUZZ_LIB_C) tests/fuzz/replay.c \
	  tests/linked.c | $(SYNTAX) -DSQLITE_CORE -iquote tests/lib
	@$(CC) $(ALL_CFLAGS) $(TCL_CFLAGS) -fsyntax-only tests/testfixture.c tests/owner.c tests/interrupt.c

check-clang: ## check with clang what it refuses or warns of, and the amalgamation
	$(MAKE) check-syntax CC=clang VARIANT=debug
	$(MAKE) OUT=$(OUT)/clang CC=clang CFLAGS=-O0 check-amalgamation

check-new-feature: ## add a feature to a copy of the source: its folder and one line
	@CC="$(CC)" EMB_SO=$(P)/emb.so tests/extended/run.sh feature

check-new-call: ## add calls to a copy of the source: emb.h, their rows, their code
	@CC="$(CC)" EMB_SO=$(P)/emb.so tests/extended/run.sh call

check-omit-data: ## build and test without choosing training data (make OMIT_DATA=1)
	$(MAKE) OUT=$(OUT)/omit-data OMIT_DATA=1 CFLAGS="$(QUICK)" all sql-tests examples
	@EMB_FIXTURE=$(OUT)/omit-data/testfixture EMB_SO=$(OUT)/omit-data/emb.so \
	  tclsh tests/run.tcl $(ONE_TESTS:%=tests/sql/%.test) tests/sql/readme.test

debug: ## run all tests with assertions and validity functions (CHECKS=3: all)
	$(MAKE) VARIANT=debug check

asan: ## run all tests under AddressSanitizer and UBSan
	$(MAKE) VARIANT=asan check

check-concurrent: $(CONCURRENT) ## run the unit tests that use threads
	@$(RUN) $(call to_run,$(CONCURRENT))

tsan: ## run the unit tests that use threads under ThreadSanitizer
	$(MAKE) VARIANT=tsan check-concurrent

check-defects: ## seed defects (SEEDS="NAME ...") and check that a suite notices
	$(MAKE) VARIANT=defect all-tests
	SHARE=1 OUT=$(OUT)/defect tests/defects.sh $(SEEDS)

soak: ## run the long forms with new seeds for HOURS hours (default 1)
	tests/install-deps.sh build test
	$(MAKE) all-tests fuzz
	$(MAKE) VARIANT=defect all-tests
	SHARE=1 HOURS=$(or $(HOURS),1) OUT=$(OUT) tests/soak.sh

lint: $(P)/emb.so ## check format, order of folders, symbols, system calls
	@OBJECTS=$(O) EMB_SO=$(P)/emb.so tests/lint.sh

format: ## format all C files
	tests/lint.sh -format

reference: $(P)/emb.so ## write sql/manual/reference.md from emb_help
	sqlite3 :memory: ".load $(P)/emb" ".read ext/help/reference.sql" > sql/manual/reference.new
	mv sql/manual/reference.new sql/manual/reference.md

bench: ## measure everything against its peers: LMDB, RocksDB, FAISS... (90 minutes)
	tests/install-deps.sh build bench
	OUT=$(OUT) bench/fetch.sh
	$(MAKE) $(P)/emb.so $(P)/bench/bench $(P)/bench/train
	OUT=$(OUT) bench/run.sh

bench-quick: ## the same with small sizes (three minutes)
	tests/install-deps.sh build bench
	OUT=$(OUT) bench/fetch.sh
	$(MAKE) $(P)/emb.so $(P)/bench/bench
	OUT=$(OUT) bench/run.sh --quick

bench-guard: ## find what got slower since another commit, BASE=COMMIT (four minutes)
	tests/install-deps.sh build bench
	$(MAKE) $(P)/emb.so $(P)/bench/bench
	OUT=$(OUT) bench/guard.sh $(BASE)

## Install
TO_EXT     = $(DESTDIR)$(EXTDIR)
TO_LIB     = $(DESTDIR)$(LIBDIR)
TO_INCLUDE = $(DESTDIR)$(PREFIX)/include
# The directories that `make install` created, for `make uninstall`.  A tree below
# DESTDIR is moved or removed as a whole, so it has no list.
MADE = $(if $(DESTDIR),/dev/null,$(TO_EXT)/directories)

install: $(P)/emb.so $(P)/libemb.a ## install to PREFIX (default /usr/local), below DESTDIR
	@set -e; for dir in "$(TO_EXT)" "$(TO_LIB)/pkgconfig" "$(TO_INCLUDE)"; do \
	  new=; up=$$dir; \
	  while [ ! -d "$$up" ]; do new="$$new $$up"; up=$$(dirname "$$up"); done; \
	  install -d "$$dir"; \
	  [ -z "$$new" ] || printf '%s\n' $$new >> "$(MADE)"; \
	done
	install -m 755 $(P)/emb.so "$(TO_EXT)/emb.so"
	install -m 644 $(P)/libemb.a "$(TO_LIB)/libemb.a"
	$(if $(STRIP),$(STRIP) --strip-unneeded "$(TO_EXT)/emb.so")
	$(if $(STRIP),$(STRIP) --strip-debug "$(TO_LIB)/libemb.a")
	install -m 644 $(HEADERS) "$(TO_INCLUDE)"
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' \
	  -e 's|@EXTDIR@|$(EXTDIR)|' -e 's|@VERSION@|$(VERSION)|' emb.pc.in \
	  > "$(TO_LIB)/pkgconfig/emb.pc"

uninstall: ## remove the installed files
	rm -f "$(TO_EXT)/emb.so" "$(TO_LIB)/libemb.a" \
	  $(patsubst %,"$(TO_INCLUDE)/%",$(notdir $(HEADERS))) \
	  "$(TO_LIB)/pkgconfig/emb.pc"
	@[ ! -f "$(MADE)" ] || { made=$$(sort -r "$(MADE)"); rm "$(MADE)"; \
	  for dir in $$made; do rmdir "$$dir" 2>/dev/null || :; done; }
	$(if $(DESTDIR),@rmdir "$(TO_EXT)" 2>/dev/null || :)

# OUT can name any directory; one that existed before belongs to the user.
clean: ## remove all build outputs
	@[ $(abspath $(OUT)) = $(CURDIR)/build ] || [ ! -e $(OUT) ] || \
	  [ -e $(OUT)/.made-by-emb ] || \
	  { echo "$(OUT) was there before it was built in: remove it yourself"; \
	    exit 1; }
	rm -rf $(OUT)

help: ## print this list
	@awk -F ':.*## ' '/^## /{printf "%s:\n", substr($$0, 4)} \
	  /^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' Makefile
	@echo Examples:
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' \
	  sql/examples/*/rules.mk

.PHONY: all all-tests sql-tests examples always test check wheel test-python quick check-unit check-c check-sql test-crossed check-model check-newer check-syntax check-clang \
        check-concurrent amalgamation check-amalgamation check-new-feature check-new-call check-omit-data debug asan tsan check-defects check-fuzz fuzz fuzz-run \
        fuzzers soak lint format reference bench bench-quick bench-guard install uninstall clean help
