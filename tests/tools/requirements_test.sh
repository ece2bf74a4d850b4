#!/bin/sh
# tools/check-requirements on the tree's own list and on faulty ones.
set -u

failed=0
mkdir -p "$TMPDIR/tree/docs" "$TMPDIR/tree/tests" && cd "$TMPDIR/tree" || exit 1
check=$PINFOLD_TOP/tools/check-requirements

list() {
	echo id,status,proof
	for n in $(seq 124); do
		[ "$n" = "$1" ] || echo "R$n,done,tests/a.py:it_holds"
	done
	[ -z "${2-}" ] || echo "$2"
}

# says SENTENCE LINE: the check fails and prints LINE.
says() {
	if out=$("$check" .); then
		echo "not ok - $1: it passes"
		failed=1
	elif [ "$out" = "$2" ]; then
		echo "ok - $1"
	else
		echo "not ok - $1: $out"
		failed=1
	fi
}

if out=$("$check"); then
	echo "ok - every requirement names what shows it"
else
	echo "not ok - every requirement names what shows it: $out"
	failed=1
fi

printf 'def it_holds():\n' >tests/a.py
printf '# Plans\n## Tools\n' >docs/roadmap.md
printf 'bench: build\n' >Makefile
list 0 >docs/requirements.csv
if out=$("$check" .); then
	echo "ok - a whole list passes"
else
	echo "not ok - a whole list passes: $out"
	failed=1
fi
list 7 >docs/requirements.csv
says "a missing requirement is named" "R7: 0 rows"
list 7 'R7,done,tests/b.py' >docs/requirements.csv
says "a proof that is no file is named" "R7: no file tests/b.py"
list 7 'R7,done,tests/a.py:it_flies' >docs/requirements.csv
says "a proof that is no test is named" 'R7: tests/a.py has no test "it_flies"'
list 7 'R7,planned,docs/roadmap.md#Toys' >docs/requirements.csv
says "a proof that is no section is named" \
	'R7: docs/roadmap.md has no section "Toys"'
list 7 'R7,done,make toys' >docs/requirements.csv
says "a proof that is no target is named" 'R7: no target toys'
list 7 'R7,done,docs/roadmap.md#Tools' >docs/requirements.csv
says "a plan is no proof" 'R7: done, and nothing shows it'
list 7 'R7,nearly,make bench' >docs/requirements.csv
says "a status of its own is refused" 'R7: status nearly'
exit "$failed"
