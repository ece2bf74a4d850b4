#!/bin/sh
# tests/run itself: whatever a test does, the sum says so.
set -u

failed=0
suite=$TMPDIR/build/tests/conform
mkdir -p "$suite"

# sums SENTENCE STATUS TEXT: runs the one test read from standard input; the
# runner ends with STATUS and prints TEXT.
sums() {
	{ echo '#!/bin/sh' && cat; } >"$suite/a_test"
	chmod 755 "$suite/a_test"
	out=$("$PINFOLD_TOP/tests/run" --build "$TMPDIR/build" \
		--limit 3 conform/a 2>&1)
	status=$?
	if [ $status -ne "$2" ]; then
		echo "not ok - $1: status $status"
		failed=1
	elif ! echo "$out" | grep -qF "$3"; then
		echo "not ok - $1: $(echo "$out" | tr '\n' ' ')"
		failed=1
	else
		echo "ok - $1"
	fi
}

sums 'cases are counted' 0 '2 passed, 0 failed, 1 skipped' <<'END'
echo 'ok - one'; echo 'ok - two'; echo 'skip - three: no such thing here'
END
sums 'the cases of cmocka are counted' 1 '1 passed, 1 failed, 1 skipped' <<'END'
echo 1..3; echo 'ok 1 - a_case'; echo 'not ok 2 - b_case'
echo '# 1 != 2'; echo 'not ok 3 # SKIP c_case'; exit 1
END
sums 'a failed case is printed with its reason' 1 \
	'not ok - conform/a: one: for this reason' <<'END'
echo 'not ok - one: for this reason'; exit 1
END
sums 'a test that dies fails' 1 'died by SIGSEGV' <<'END'
echo 'ok - one'; kill -s SEGV $$
END
sums 'a status without a failed case fails' 1 'ended with status 3' <<'END'
echo 'ok - one'; exit 3
END
sums 'a test without a case fails' 1 'printed no case' <<'END'
true
END
sums 'a case that a plan announced must come' 1 '1 of 2 cases' <<'END'
echo 1..2; echo 'ok 1 - one'
END
sums 'output without end is ended' 1 'printed more than 4 MiB' <<'END'
yes
END
sums 'a test that does not end is ended' 1 'did not end within 3 s' <<'END'
echo 'ok - one'; sleep 1000
END
sums 'a process that is left behind fails and is ended' 1 \
	'left behind: sleep' <<'END'
echo 'ok - one'; setsid sleep 1000 & exit 0
END
exit $failed
