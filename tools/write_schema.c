/*
 * Writes schema/policy.json from the table of policy fields:
 *	build/src/proc/write_schema >schema/policy.json
 */
#include "base/io.h"
#include "policy/load.h"

#include <unistd.h>

int main(void)
{
	AUTO_BUF struct buf out = BUF_INIT(1u << 20);

	if (policy_write_schema(&out) < 0)
		return 1;
	return io_write_all(STDOUT_FILENO, out.data, out.len) < 0;
}
