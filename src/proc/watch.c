#include "task/watch.h"

int main(void)
{
	return watch_main();
}
