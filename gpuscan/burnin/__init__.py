"""Active tests: what a card computes, remembers and moves under load, launched on the driver alone."""
