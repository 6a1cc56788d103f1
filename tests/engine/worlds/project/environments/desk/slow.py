"""A file whose import never ends."""

while True:
    pass
