"""Tests of the rounds, the table and the picture on made-up rows: `benches/peers --self-test`. They start no library."""

import sys
import unittest
import xml.etree.ElementTree as ElementTree

import chart
import rounds
import sizes
import table
from catalogue import HERE, PEERS, Job, Unavailable, output

ROWS = [
    f"{name},all_reduce,2,{size},{median},{2 * median}"
    for name, size, medians in [
        ("hcomm", 8, [0.4, 0.2, 0.3]),
        ("one", 8, [0.5, 0.6, 0.4]),
        ("two", 8, [9.0, 0.1, 3.0]),
        ("hcomm", 2 << 20, [100.0, 300.0, 150.0]),
        ("one", 2 << 20, [400.0, 100.0, 90.0]),
        ("two", 2 << 20, [75.0]),
        ("floor", 2 << 20, [50.0, 60.0, 40.0]),
        ("hcomm", 64, [1.0]),
    ]
    for median in medians
]
TITLES = {"hcomm": "hcomm", "one": "One <1>", "two": "Two", "floor": "floor"}


def lines(column="median"):
    return table.lines(rounds.figures(ROWS, column))


class Table(unittest.TestCase):
    def test_ratios_are_of_medians_to_the_best_peer(self):
        small, large = lines()
        self.assertEqual([(small.size, small.best), (large.size, large.best)], [(8, "one"), (2 << 20, "two")])
        self.assertAlmostEqual(small.ratio, 0.3 / 0.5)
        self.assertAlmostEqual(large.ratio, 150 / 75)
        self.assertAlmostEqual(large.over_floor, 150 / 50)
        self.assertIsNone(small.over_floor)
        self.assertAlmostEqual(table.mean(lines()), (0.6 * 2) ** 0.5)

    def test_the_other_column(self):
        self.assertEqual([line.times["hcomm"] for line in lines("stream")], [0.6, 300.0])

    def test_text_has_a_row_per_size_in_straight_columns(self):
        rows = table.text(lines(), TITLES).splitlines()
        self.assertEqual(len({len(row) for row in rows}), 1)
        cells = [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows]
        self.assertEqual(cells[2:], [["8", "0.30", "0.50", "One <1>", "0.60", ""], ["2 MiB", "150", "75.0", "Two", "2.00", "3.00"]])

    def test_sizes_are_shown_in_whole_units(self):
        self.assertEqual([table.size_text(size) for size in (0, 8, 1024, 1536, 3 << 20, 1 << 30)], ["0", "8", "1 KiB", "1536", "3 MiB", "1 GiB"])


class Picture(unittest.TestCase):
    def setUp(self):
        self.text = chart.svg(lines(), TITLES, "a & b")
        self.root = ElementTree.fromstring(self.text)

    def all(self, tag):
        return self.root.findall(f"{{http://www.w3.org/2000/svg}}{tag}")

    def test_it_has_a_curve_per_library_and_its_name(self):
        self.assertEqual(len(self.all("polyline")), 4)
        words = [element.text for element in self.all("text")]
        for wanted in [*TITLES.values(), "a & b", "0.60", "2.00", "2 MiB"]:
            self.assertIn(wanted, words)

    def test_faster_is_lower_and_nothing_leaves_the_scale(self):
        self.assertLess(chart.down(2), chart.down(1))
        self.assertLess(chart.down(1), chart.down(0.5))
        self.assertEqual([chart.down(1000), chart.down(0.0001)], [chart.TOP, chart.TOP + chart.HEIGHT])

    def test_everything_lies_on_the_paper(self):
        width, height = float(self.root.get("width")), float(self.root.get("height"))
        for element in self.all("text"):
            self.assertTrue(0 <= float(element.get("x")) < width and 0 < float(element.get("y")) < height, element.text)


class Contestant:
    """Answers with rows of its own, or fails from the given round on."""

    def __init__(self, name, log, fails_at=99, rows=None):
        self.name, self.title, self.log, self.fails_at, self.wrong_rows, self.turns = name, name, log, fails_at, rows, 0

    def rows(self, job, sizes):
        self.log.append((self.name, sizes))
        self.turns += 1
        if self.turns > self.fails_at:
            raise Unavailable("made to fail")
        return self.wrong_rows or "noise\n" + "\n".join(f"{job.collective},2,{size},1.0,2.0" for size in sizes.split(","))


class Rounds(unittest.TestCase):
    job = Job("all_reduce", 2, "shm", 5)

    def measured(self, *contestants, sizes=(8, 1 << 21), count=5):
        rows = []
        stderr, sys.stderr = sys.stderr, open("/dev/null", "w")
        try:
            rounds.measure(list(contestants), self.job, list(sizes), count, rows.append)
        finally:
            sys.stderr.close()
            sys.stderr = stderr
        return rows

    def test_small_sizes_get_more_rounds_and_the_floor_no_small_sizes(self):
        log = []
        rows = self.measured(Contestant("hcomm", log), Contestant("floor", log))
        self.assertEqual(rows.count("hcomm,all_reduce,2,8,1.0,2.0"), 9)
        self.assertEqual(rows.count(f"hcomm,all_reduce,2,{1 << 21},1.0,2.0"), 5)
        self.assertEqual(log.count(("floor", str(1 << 21))), 5)
        self.assertEqual([log[0][0], log[2][0]], ["hcomm", "floor"])

    def test_who_fails_is_left_out_and_the_others_go_on(self):
        log = []
        rows = self.measured(Contestant("hcomm", log), Contestant("one", log, fails_at=2), sizes=[1 << 21])
        self.assertEqual([name for name, _ in log].count("one"), 3)
        self.assertEqual(len([row for row in rows if row.startswith("hcomm,")]), 5)

    def test_missing_rows_are_a_failure(self):
        log = []
        self.measured(Contestant("hcomm", log), Contestant("one", log, rows="all_reduce,2,8,1.0,2.0"))
        self.assertEqual([name for name, _ in log].count("one"), 1)

    def test_without_hcomm_there_is_no_comparison(self):
        with self.assertRaisesRegex(SystemExit, "made to fail"):
            self.measured(Contestant("hcomm", [], fails_at=0))

    def test_a_command_that_fails_or_hangs_is_told(self):
        self.assertEqual(output(["sh", "-c", "echo fine"], None, 10), "fine\n")
        for script, reason in [("echo bad luck >&2; exit 3", "ended with 3: bad luck"), ("sleep 60", "after 1 s")]:
            with self.assertRaisesRegex(Unavailable, reason):
                output(["sh", "-c", script], None, 1)
        with self.assertRaisesRegex(Unavailable, "cannot be run"):
            output(["/no-such-command"], None, 1)


class Sizes(unittest.TestCase):
    def test_sizes_are_read_as_people_write_them(self):
        self.assertEqual(sizes.parse("2M,8, 64K,1KiB,8"), [8, 1 << 10, 64 << 10, 2 << 20])
        for wrong in ("", "8,", "-1", "1.5K", "8Q", "K", "²"):
            with self.assertRaisesRegex(ValueError, "is no size"):
                sizes.parse(wrong)

    def test_every_rank_has_an_element(self):
        self.assertEqual(sizes.worthwhile([4, 16], Job("all_reduce", 4, "shm", 5)), [4, 16])
        self.assertEqual(sizes.worthwhile([16], Job("all_to_all", 4, "shm", 5)), [16])
        self.assertEqual(sizes.worthwhile([16], Job("barrier", 4, "shm", 5)), [0])
        with self.assertRaisesRegex(ValueError, "20 bytes or more"):
            sizes.worthwhile([16], Job("all_gather", 5, "shm", 5))


class Catalogue(unittest.TestCase):
    def test_every_peer_has_its_program_and_a_name_of_its_own(self):
        self.assertEqual(len({peer.name for peer in PEERS}), len(PEERS))
        for peer in PEERS:
            self.assertTrue((HERE / peer.program).exists(), peer.name)
            words = peer.command(Job("all_to_all", 3, "shm", 5), "8,64")
            self.assertTrue(any("all_to_all" in word for word in words) and any("8,64" in word for word in words), peer.name)
