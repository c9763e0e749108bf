# rules.mk -- rules for training with PyTorch; included by the Makefile.

torch: ## train with PyTorch: tables beside nn.Embedding, and two processes on one table
	tests/install-deps.sh build torch
	$(MAKE) $(P)/emb.so wheel
	OUT=$(OUT) sql/examples/torch/run.sh

.PHONY: torch
