#include "task/protocol.h"

#include "base/cleanup.h"
#include "confine/cgroup.h"

#define ALWAYS 0xffffffffu
/* A row for a payload of exactly one structure. */
#define EXACT(type, states, shape, fds_min, fds_max)                           \
	{type, states, sizeof(struct shape), sizeof(struct shape), fds_min,    \
	 fds_max}

const struct message_rule keeper_from_front[] = {
	EXACT(FRONT_BEGIN, KEEPER_STARTING, begin, 0, 0),
	{FRONT_PLAN, KEEPER_WAITING, 0, 0, PLAN_FD_COUNT, PLAN_FD_COUNT},
	{FRONT_CLONES, KEEPER_BUILDING, 0, 0, 1, CHANNEL_FDS_MAX},
	EXACT(FRONT_EXEC, KEEPER_BUILDING | KEEPER_RUNNING, exec_head, 1, 1),
	EXACT(FRONT_SIGNAL, KEEPER_BUILDING | KEEPER_RUNNING | KEEPER_ENDING,
	      exec_signal, 0, 0),
	EXACT(FRONT_STOP, ALWAYS, stop_request, 0, 0),
	{FRONT_REFRESH, KEEPER_RUNNING, 0, 0, 0, 0},
	{FRONT_REFRESHED, KEEPER_RUNNING, 0, 0, 0, 0},
};
const size_t n_keeper_from_front = ARRAY_SIZE(keeper_from_front);

const struct message_rule keeper_from_init[] = {
	{INIT_ENTERED, KEEPER_BUILDING, 0, 0, 2, 2},
	EXACT(INIT_STREAMS, KEEPER_RUNNING, exec_streams, 1, 3),
	EXACT(INIT_STARTED, KEEPER_RUNNING, exec_head, 0, 0),
	EXACT(INIT_STOPPED, KEEPER_RUNNING, exec_signal, 0, 0),
	EXACT(INIT_EXITED, KEEPER_RUNNING, exec_done, 0, 0),
	EXACT(INIT_OPEN_FILES, KEEPER_RUNNING, open_files, 0, 0),
	EXACT(INIT_FAILED, KEEPER_BUILDING | KEEPER_RUNNING, failure, 0, 0),
};
const size_t n_keeper_from_init = ARRAY_SIZE(keeper_from_init);

const struct message_rule keeper_from_watch[] = {
	EXACT(WATCH_RECORD, KEEPER_RUNNING, watch_record, 0, 0),
};
const size_t n_keeper_from_watch = ARRAY_SIZE(keeper_from_watch);

const struct message_rule front_from_keeper[] = {
	EXACT(FRONT_READY, ALWAYS, ready_head, 0, 0),
	EXACT(FRONT_STREAMS, ALWAYS, exec_streams, 1, 3),
	EXACT(FRONT_STARTED, ALWAYS, exec_head, 0, 0),
	EXACT(FRONT_STOPPED, ALWAYS, exec_signal, 0, 0),
	EXACT(FRONT_DONE, ALWAYS, exec_done, 0, 0),
	{FRONT_ENDING, ALWAYS, 0, 0, 0, 0},
	EXACT(FRONT_ENDED, ALWAYS, task_ended, 0, 0),
	EXACT(FRONT_FAILED, ALWAYS, failure, 0, 0),
	EXACT(FRONT_VIEW, ALWAYS, refresh_view, VIEW_FD_COUNT, VIEW_FD_COUNT),
	{FRONT_REFRESHED, ALWAYS, 0, 0, 0, 0},
};
const size_t n_front_from_keeper = ARRAY_SIZE(front_from_keeper);

const struct message_rule init_from_keeper[] = {
	{INIT_JOIN, INIT_BUILDING, 0, 0, 0, CGROUP_COUNT},
	{INIT_MOUNTS, INIT_BUILDING, 2, CHANNEL_DATA_MAX, 1, CHANNEL_FDS_MAX},
	{INIT_ENTER, INIT_BUILDING, 1, CHANNEL_DATA_MAX, 0, 1},
	EXACT(INIT_EXEC, INIT_RUNNING, exec_head, 1, 1),
	EXACT(INIT_SIGNAL, INIT_RUNNING, exec_signal, 0, 0),
	EXACT(INIT_END_EXEC, INIT_RUNNING, exec_head, 0, 0),
	{INIT_COUNT_OPEN, INIT_RUNNING, 0, 0, 0, 0},
};
const size_t n_init_from_keeper = ARRAY_SIZE(init_from_keeper);
