import unittest

from fairshare import split


class Rounding(unittest.TestCase):
    def test_no_cent_is_lost(self):
        for amount in (100, 101, 9999):
            self.assertEqual(sum(split(amount, [1, 1, 1])), amount)
