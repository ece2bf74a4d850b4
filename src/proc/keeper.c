#include "task/keeper.h"

int main(int argc, char *argv[])
{
	return argc == 3 ? keeper_main(argv[1], argv[2]) : 125;
}
