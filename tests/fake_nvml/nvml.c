/*
 * A stand-in for libnvidia-ml.so.1 that answers from a scenario file.
 *
 * It knows no NVML semantics beyond handles and buffer sizes: each line of the
 * scenario says what one call with one set of arguments returns, after how long.
 * scenario.py writes the file, calls.py says how each call is shaped.
 *
 *   ignore-sigterm
 *   device INDEX ADDRESS                               INDEX -1: only by address
 *   call SYMBOL ADDRESS ARGS CODE DELAY_MS [HEX...]    HEX: a result, "-" if empty
 *
 * ADDRESS and ARGS are "-" where there are none; DELAY_MS -1 hangs forever, -2 crashes,
 * -3 writes nonsense into every open file but the first three.
 * SYMBOL+ is what the call answers from the second time on. A result may be followed by
 * +OFFSET,STEP,MOST,FILE: the 32-bit number in it grows by STEP for each byte in FILE, by at
 * most MOST.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    VERSION_MISMATCH = 25,
    UNKNOWN = 999,
};

enum { MAX_DEVICES = 256, MAX_RESULTS = 4, KEY_SIZE = 256, ARGS_SIZE = 96, ADDRESS_SIZE = 24 };

struct result {
    size_t size;
    unsigned char *bytes;
    size_t offset; /* of a number that grows */
    uint32_t first, step, most;
    char *file;
};

struct call {
    char *key; /* "SYMBOL ADDRESS ARGS" */
    int code;
    long delay_ms;
    int times; /* asked so far */
    int result_count;
    struct result results[MAX_RESULTS];
};

struct device {
    int index;
    char address[ADDRESS_SIZE];
};

/* The caller's array in nvmlDeviceGetFieldValues. */
struct field_value {
    uint32_t field;
    uint32_t scope;
    int64_t timestamp_us;
    int64_t latency_us;
    uint32_t type;
    uint32_t code;
    unsigned char value[8];
};

static struct call *calls;
static size_t call_count;
static struct device devices[MAX_DEVICES];
static size_t device_count;
static int loaded;
static pthread_once_t load_once = PTHREAD_ONCE_INIT;
static atomic_int sessions;

#include "load.inc"

static void grow(struct result *result)
{
    struct stat file;
    uint64_t grown;
    uint32_t now;

    if (stat(result->file, &file) != 0)
        file.st_size = 0;
    grown = (uint64_t)file.st_size * result->step;
    now = result->first + (uint32_t)(grown < result->most ? grown : result->most);
    memcpy(result->bytes + result->offset, &now, sizeof now);
}

static const struct call *grown(struct call *call)
{
    for (int i = 0; call != NULL && i < call->result_count; i++)
        if (call->results[i].file != NULL)
            grow(&call->results[i]);
    return call;
}

static const struct call *find(const char *symbol, const char *address, const char *args)
{
    char key[KEY_SIZE];
    struct call wanted = {.key = key};
    struct call *first, *later = NULL;

    snprintf(key, sizeof key, "%s %s %s", symbol, address, args);
    first = bsearch(&wanted, calls, call_count, sizeof *calls, compare_calls);
    if (first == NULL || first->times++ == 0)
        return grown(first);
    snprintf(key, sizeof key, "%s+ %s %s", symbol, address, args);
    later = bsearch(&wanted, calls, call_count, sizeof *calls, compare_calls);
    return grown(later != NULL ? later : first);
}

/* One line a call, in one write, so that lines of several processes stay whole. */
static void note(const char *symbol, const char *address, const char *args)
{
    const char *path = getenv("FAKE_NVML_LOG");
    char line[KEY_SIZE];
    int file, size;

    if (path == NULL)
        return;
    file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (file < 0)
        return;
    size = snprintf(line, sizeof line, "%s %s %s\n", symbol, address, args);
    if (write(file, line, (size_t)size) != size)
        fprintf(stderr, "fake NVML: cannot write FAKE_NVML_LOG\n");
    close(file);
}

/* Waits as long as the scenario wants, through any signal, then gives the code. */
static int settle(const struct call *call)
{
    struct timespec left = {call->delay_ms / 1000, call->delay_ms % 1000 * 1000000};

    if (call->delay_ms == -2)
        raise(SIGSEGV);
    for (int file = 3; call->delay_ms == -3 && file < 64; file++)
        if (write(file, "{nonsense}\n", 11) < 0)
            continue;
    while (call->delay_ms == -1)
        pause();
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
    return call->code;
}

static const struct device *device_of(uintptr_t handle)
{
    for (size_t i = 0; i < device_count; i++)
        if ((uintptr_t)&devices[i] == handle)
            return &devices[i];
    return NULL;
}

static int give_text(const struct call *call, char *text, unsigned room)
{
    if (call->results[0].size > room)
        return INSUFFICIENT_SIZE;
    memcpy(text, call->results[0].bytes, call->results[0].size);
    return SUCCESS;
}

/* The version word is kept: its low 24 bits are the structure's size in bytes. */
static int give_version(const struct call *call, unsigned char *structure)
{
    uint32_t version;

    memcpy(&version, structure, sizeof version);
    for (int i = 0; i < call->result_count; i++) {
        const struct result *result = &call->results[i];
        if (result->size == (version & 0xffffff)) {
            memcpy(structure + sizeof version, result->bytes + sizeof version,
                   result->size - sizeof version);
            return SUCCESS;
        }
    }
    return VERSION_MISMATCH;
}

static int give_list(const struct call *call, uint32_t *count, void *items)
{
    uint32_t room = *count;

    memcpy(count, call->results[0].bytes, sizeof *count);
    if (*count > room || (*count > 0 && items == NULL))
        return INSUFFICIENT_SIZE;
    if (*count > 0)
        memcpy(items, call->results[1].bytes, call->results[1].size);
    return SUCCESS;
}

/* Reads what is asked from the arguments: the card and the numbers after it. */
static int read_question(const char *shape, const uintptr_t *argument, char *address, char *args)
{
    char text[ARGS_SIZE] = "";
    size_t used = 0;
    int cards = 0;

    for (; *shape != '\0'; shape++) {
        const struct device *device = *shape == 'h' ? device_of(*argument) : NULL;
        const char *comma = used > 0 ? "," : "";

        if (*shape == 'h' && device == NULL)
            return INVALID_ARGUMENT;
        if (*shape == 'h' && cards++ == 0)
            snprintf(address, ADDRESS_SIZE, "%s", device->address);
        else if (*shape == 'h')
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", comma,
                                     device->address);
        else if (*shape == 'u')
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%u", comma,
                                     (unsigned)*argument);
        argument += *shape == 's' || *shape == 'l' ? 2 : 1;
    }
    snprintf(args, ARGS_SIZE, "%s", used > 0 ? text : "-");
    return SUCCESS;
}

static int answer(const char *symbol, const char *key, const char *shape,
                  const uintptr_t *argument)
{
    char address[ADDRESS_SIZE] = "-", args[ARGS_SIZE] = "-";
    const struct call *call;
    int code, given = 0;

    if (sessions <= 0)
        return UNINITIALIZED;
    code = read_question(shape, argument, address, args);
    if (code != SUCCESS)
        return code;
    note(symbol, address, args);
    call = find(key, address, args);
    if (call == NULL)
        call = find("*", address, "-");
    if (call == NULL)
        return NOT_SUPPORTED;
    code = settle(call);
    for (; code == SUCCESS && *shape != '\0'; shape++) {
        if (*shape == 'o' && given < call->result_count) {
            memcpy((void *)*argument, call->results[given].bytes, call->results[given].size);
            given++;
        } else if (*shape == 's') {
            code = give_text(call, (char *)argument[0], (unsigned)argument[1]);
        } else if (*shape == 'v') {
            code = give_version(call, (unsigned char *)*argument);
        } else if (*shape == 'l') {
            code = give_list(call, (uint32_t *)argument[0], (void *)argument[1]);
        }
        argument += *shape == 's' || *shape == 'l' ? 2 : 1;
    }
    return code;
}

/*
 * All arguments of these calls are pointers or integers, which the 64-bit Linux
 * ABIs pass in the same registers, so one stub can take any of them.
 */
#define STUB(symbol, key, shape)                                                    \
    int symbol(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e,     \
               uintptr_t f)                                                         \
    {                                                                               \
        const uintptr_t argument[] = {a, b, c, d, e, f};                            \
        return answer(#symbol, key, shape, argument);                               \
    }
#include "stubs.inc"

#include "handles.inc"
