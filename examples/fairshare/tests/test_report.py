import unittest

from fairshare.report import report


class Report(unittest.TestCase):
    def test_names_and_amounts_are_aligned(self):
        self.assertEqual(report(600, {'Ada': 1, 'Grace': 1}),
                         'Ada    3.00\nGrace  3.00')
