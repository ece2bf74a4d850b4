#include "confine/net.h"

#include "base/cleanup.h"

#include <errno.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

int net_loopback_up(struct error *err)
{
	AUTO_CLOSE int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq req = {.ifr_name = "lo"};

	if (fd < 0)
		return error_errno(err, "cannot open a socket");
	req.ifr_flags = IFF_UP | IFF_RUNNING;
	if (ioctl(fd, SIOCSIFFLAGS, &req) < 0)
		return error_errno(err, "cannot bring the loopback up");
	return 0;
}
