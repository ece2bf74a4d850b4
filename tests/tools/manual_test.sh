#!/bin/sh
# The manual pages: no formatter has anything to say against them.
pages="$PINFOLD_BUILD/man"
bad=0

report()
{
	if [ -z "$2" ]; then
		echo "ok - $1"
	else
		echo "not ok - $1: $(echo "$2" | head -n 3 | tr '\n' ' ')"
		bad=1
	fi
}

if command -v groff >/dev/null; then
	report 'groff formats every page without a warning' \
		"$(for p in "$pages"/*.[1-8]; do
			LC_ALL=C.UTF-8 groff -man -Tutf8 -ww -z "$p" 2>&1
		done)"
else
	echo 'skip - groff formats every page without a warning: no groff'
fi
if command -v mandoc >/dev/null; then
	report 'mandoc finds nothing to say about any page' \
		"$(for p in "$pages"/*.[1-8]; do
			mandoc -Tlint -W style "$p" 2>&1
		done)"
else
	echo 'skip - mandoc finds nothing to say about any page: no mandoc'
fi
report 'every page has a title, a name and a description' \
	"$(for p in "$pages"/*.[1-8]; do
		name=$(basename "$p" | sed 's/\.[1-8]$//')
		grep -q '^\.TH PINFOLD' "$p" || echo "$p: title"
		sed -n '/^\.SH NAME/{n;p;}' "$p" | sed 's/\\-/-/g' |
			grep -q "^$name - [a-z]" || echo "$p: name"
		grep -q '^\.SH DESCRIPTION' "$p" || echo "$p: description"
	done)"
exit $bad
