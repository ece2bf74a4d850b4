#!/bin/sh
# The tree builds on a new Debian 13 with git and make alone, and its unit
# tests pass there. AppArmor of that age reads the profile.
# limit: 1800 s
set -u

log=$TMPDIR/log
tar -C "$PINFOLD_TOP" -cf "$TMPDIR/tree.tar" --exclude=./build \
	--exclude='./build-*' --exclude=./.git .
mmdebstrap --variant=minbase --format=null \
	--include=git,make,ca-certificates,apparmor \
	--customize-hook='mkdir "$1/src"' \
	--customize-hook="tar-in $TMPDIR/tree.tar /src" \
	--customize-hook='chroot "$1" make -C /src build && echo "made: 0"' \
	--customize-hook='chroot "$1" /src/tests/run unit conform fuzz' \
	--customize-hook='sed "s|@PREFIX@|/usr|" "$1/src/tools/apparmor.profile" \
		>"$1/profile"; chroot "$1" apparmor_parser --skip-kernel-load \
		--skip-cache /profile && echo "profile: 0"' \
	trixie /dev/null >"$log" 2>&1
status=$?

failed=0
shows() {
	if grep -q "$2" "$log"; then
		echo "ok - $1"
	else
		echo "not ok - $1: status $status"
		failed=1
	fi
}

shows 'a new Debian 13 builds pinfold' '^made: 0$'
shows 'the unit tests pass on Debian 13' '^[1-9][0-9]* passed, 0 failed,'
shows 'the AppArmor of Debian 13 reads the profile' '^profile: 0$'
[ $failed -eq 0 ] || grep -v '^I: ' "$log" | tail -n 40 | sed 's/^/# /'
exit $failed
