#include "confine/caps.h"

#include "confine/sys.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/prctl.h>

static int cap_set(struct __user_cap_data_struct data[2])
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};

	return (int)sys_raw(SYS_capset, (long)&head, (long)data, 0, 0, 0);
}

int caps_keep_over_exec(const int *caps, int n)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct data[2] = {0};
	int r;

	if (syscall(SYS_capget, &head, data) < 0)
		return -errno;
	for (int i = 0; i < n; i++)
		data[caps[i] / 32].inheritable |= 1u << caps[i] % 32;
	r = cap_set(data);
	for (int i = 0; i < n && r == 0; i++) {
		if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, caps[i], 0,
			  0) < 0)
			r = -errno;
	}
	return r;
}

void caps_not_over_exec(void)
{
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
}

/* Empties the bounding set but for one (-1: whole). */
static int drop_bounding(int keep)
{
	for (int cap = 0; cap < 64; cap++) {
		if (cap == keep || prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0)
			continue;
		/* The first number that the kernel does not know. */
		return errno == EINVAL ? 0 : -errno;
	}
	return 0;
}

int caps_seal(void)
{
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return -errno;
	return drop_bounding(-1);
}

int caps_keep_one(int cap)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct data[2] = {0}, one[2] = {0};
	uint32_t bit = 1u << cap % 32;
	bool has;
	int r;

	if (syscall(SYS_capget, &head, data) < 0)
		return -errno;
	has = (data[cap / 32].permitted & bit) != 0;
	r = has ? drop_bounding(cap) : 0;
	if (!has || r < 0)
		return has ? r : caps_drop_all();
	one[cap / 32] = (struct __user_cap_data_struct){bit, bit, bit};
	r = cap_set(one);
	if (r == 0 && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) < 0)
		r = -errno;
	return r;
}

int caps_drop_all(void)
{
	struct __user_cap_data_struct none[2] = {0};

	return cap_set(none);
}
