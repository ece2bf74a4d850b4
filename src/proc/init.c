#include "task/init.h"

int main(void)
{
	init_main();
}
