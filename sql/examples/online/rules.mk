# rules.mk -- rules for the online training example; included by the Makefile.

# The programs; all other files are linked into each.
ONLINE_MAIN := experiment joining trainer server
ONLINE_C   := $(wildcard sql/examples/online/*.c)
ONLINE_O   := $(patsubst %.c,$(O)/%.o,$(wildcard sql/lib/*.c) \
                $(filter-out $(ONLINE_MAIN:%=sql/examples/online/%.c),$(ONLINE_C)))
ONLINE     := $(ONLINE_MAIN:%=$(P)/online/%)
EXAMPLES   += $(ONLINE)

$(ONLINE): $(P)/online/%: $(O)/sql/examples/online/%.o $(ONLINE_O)
	@echo "  LINK   $@"
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ -lsqlite3 -lm -lpthread

online: ## install dependencies, build, measure online training (minutes)
	tests/install-deps.sh build
	$(MAKE) $(P)/emb.so $(ONLINE)
	OUT=$(OUT) sql/examples/online/run.sh full

online-quick: ## the same with small sizes (20 seconds)
	tests/install-deps.sh build
	$(MAKE) $(P)/emb.so $(ONLINE)
	OUT=$(OUT) sql/examples/online/run.sh quick

online-serve: ## install dependencies, build, train in one process, serve in another
	tests/install-deps.sh build online
	$(MAKE) $(P)/emb.so $(ONLINE)
	OUT=$(OUT) sql/examples/online/serve.sh

.PHONY: online online-quick online-serve
