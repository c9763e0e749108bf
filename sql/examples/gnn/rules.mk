# rules.mk -- rules for the graph network example; included by the Makefile.

GNN_O      := $(patsubst %.c,$(O)/%.o,$(wildcard sql/lib/*.c sql/lib/neural/*.c) \
                sql/examples/bank/data.c sql/examples/gnn/sample.c sql/examples/gnn/sage.c)
GNN        := $(P)/gnn/gnn $(P)/gnn/report
EXAMPLES   += $(GNN)

$(GNN): $(P)/gnn/%: $(O)/sql/examples/gnn/%.o $(GNN_O)
	@echo "  LINK   $@"
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ -lsqlite3 -lopenblas -lm -lpthread

$(O)/sql/examples/gnn/%.o: ALL_CFLAGS += -O3

gnn: ## install dependencies, build, train a graph network with and without look-ahead
	tests/install-deps.sh build bank
	$(MAKE) $(P)/emb.so $(GNN)
	OUT=$(OUT) sql/examples/gnn/run.sh

gnn-page: ## the same, and write the results into sql/examples/gnn/README.md
	tests/install-deps.sh build bank
	$(MAKE) $(P)/emb.so $(GNN)
	OUT=$(OUT) sql/examples/gnn/run.sh page

.PHONY: gnn gnn-page
