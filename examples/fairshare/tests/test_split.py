import unittest

from fairshare import split


class Split(unittest.TestCase):
    def test_equal_weights_give_equal_shares(self):
        self.assertEqual(split(900, [1, 1, 1]), [300, 300, 300])

    def test_shares_follow_the_weights(self):
        self.assertEqual(split(1000, [3, 1, 1]), [600, 200, 200])

    def test_nobody_to_pay_is_an_error(self):
        with self.assertRaises(ValueError):
            split(100, [])
