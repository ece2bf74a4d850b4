/*
 * Writes what is generated from the table of policy fields: "schema" for
 * schema/policy.json, "manual" for the page pinfold-policy(5).
 */
#include "base/io.h"
#include "base/str.h"
#include "policy/load.h"

#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	AUTO_BUF struct buf out = BUF_INIT(1u << 20);
	int r;

	if (argc != 2) {
		fputs("usage: write_policy schema|manual\n", stderr);
		return 2;
	}
	r = str_eq(argv[1], "schema") ? policy_write_schema(&out)
				      : policy_write_manual(&out);
	if (r == 0)
		r = io_write_all(STDOUT_FILENO, out.data, out.len);
	return r == 0 ? 0 : 1;
}
