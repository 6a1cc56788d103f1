"""A file that can't be imported."""

import no_such_module

print(no_such_module)
