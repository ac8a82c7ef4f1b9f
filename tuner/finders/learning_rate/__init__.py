"""The search for a learning rate: range tests, their curves, and what follows from them."""
