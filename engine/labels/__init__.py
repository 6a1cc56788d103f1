"""Labels on stored trials: trying verifiers, applying them, comparing and exporting them."""
