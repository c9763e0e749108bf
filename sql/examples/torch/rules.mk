# rules.mk -- training with PyTorch; the Makefile includes it.

torch: ## install dependencies, build, train with PyTorch in two processes
	tests/install-deps.sh build torch
	$(MAKE) $(P)/emb.so
	OUT=$(OUT) sql/examples/torch/run.sh

.PHONY: torch
