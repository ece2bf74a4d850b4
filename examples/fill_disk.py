"""Writes files until something stops it."""
block = b'\xa5' * (1 << 20)
number = 0
while True:
    number += 1
    with open(f'dump.{number}', 'wb', buffering=0) as f:
        for _ in range(16):
            f.write(block)
