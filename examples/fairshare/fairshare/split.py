"""How an amount is split. Amounts are whole cents."""


def split(amount, weights):
    """Shares of amount in proportion to weights; their sum is the amount."""
    if not weights or min(weights) < 0 or sum(weights) == 0:
        raise ValueError('weights must be positive')
    return [amount * weight // sum(weights) for weight in weights]
