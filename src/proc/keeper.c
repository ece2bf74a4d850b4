#include "task/keeper.h"

int main(void)
{
	return keeper_main();
}
