#!/bin/sh
# What README.md shows of policies is what pinfold prints of them: the only
# output in it that is the same on every machine.
set -u

shown=$TMPDIR/shown
export PATH="$PINFOLD_BUILD/bin:$PATH"
export HOME="$TMPDIR"
unset XDG_CONFIG_HOME
cd "$PINFOLD_TOP" || exit 1

# From the first of these commands to the end of the block, not indented.
sed -n '/^    \$ cat examples\/policy.yaml/,/^[^ ]/s/^    //p' README.md |
	sed "s|/tmp/wrong|$TMPDIR/wrong|g" >"$shown"
grep '^\$ ' "$shown" | sed 's/^\$ //' |
	while IFS= read -r command; do
		printf '$ %s\n' "$command"
		sh -c "$command" 2>&1
	done >"$TMPDIR/real"
sentence='what README.md shows of policies is what is printed'
if [ ! -s "$shown" ]; then
	echo "not ok - $sentence: it shows nothing"
elif diff "$shown" "$TMPDIR/real" >"$TMPDIR/diff"; then
	echo "ok - $sentence"
	exit 0
else
	echo "not ok - $sentence: $(tr '\n' '|' <"$TMPDIR/diff")"
fi
exit 1
