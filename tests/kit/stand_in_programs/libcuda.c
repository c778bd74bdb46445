/* What kit.libcuda compiles into libcuda.so.1: the few functions that list devices.

   STAND_IN_CUDA          the cards in PCI order, one a line: uuid, MiB, compute mode, speed, then
                          its MIG instances, each uuid:GI/CI:MiB; all parted by blanks
   STAND_IN_CUDA_FAULT    "hang", "crash", or the code that cuInit returns
   STAND_IN_CUDA_CALLS    a file; each call appends the function's name and the caller's mask

   The rules for CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER are cited in kit/libcuda.py. */

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST 16
#define NO_DEVICE 100

typedef struct {
    char uuid[64];
    int mib, mode, speed, instances;
    struct { char uuid[64]; int gi, ci, mib; } instance[MOST];
} Card;
typedef struct { Card *card; int instance; } Device; /* instance -1: the whole card */

static Card cards[MOST];
static Device devices[MOST];
static int card_count, device_count;
#define HANDLE 40 /* handles are not ordinals: cuDeviceGet makes one of the other */
#define DEVICE(handle) (&devices[(handle) - HANDLE])

static void note(const char *function)
{
    const char *file = getenv("STAND_IN_CUDA_CALLS"), *mask = getenv("CUDA_VISIBLE_DEVICES");
    FILE *calls = file ? fopen(file, "a") : NULL;
    if (calls) {
        fprintf(calls, "%s %s\n", function, mask ? mask : "unset");
        fclose(calls);
    }
}

static int slower(const void *a, const void *b)
{
    return ((const Card *)b)->speed - ((const Card *)a)->speed;
}

static void read_cards(void)
{
    char *text = strdup(getenv("STAND_IN_CUDA") ? getenv("STAND_IN_CUDA") : ""), *lines, *words;
    for (char *line = strtok_r(text, "\n", &lines); line; line = strtok_r(NULL, "\n", &lines)) {
        Card *card = &cards[card_count++];
        strcpy(card->uuid, strtok_r(line, " ", &words));
        card->mib = atoi(strtok_r(NULL, " ", &words));
        card->mode = atoi(strtok_r(NULL, " ", &words));
        card->speed = atoi(strtok_r(NULL, " ", &words));
        for (char *word; (word = strtok_r(NULL, " ", &words)); card->instances++)
            sscanf(word, "%63[^:]:%d/%d:%d", card->instance[card->instances].uuid,
                   &card->instance[card->instances].gi, &card->instance[card->instances].ci,
                   &card->instance[card->instances].mib);
    }
    free(text);
    const char *order = getenv("CUDA_DEVICE_ORDER");
    if (!order || strcmp(order, "PCI_BUS_ID")) /* FASTEST_FIRST is the default */
        qsort(cards, card_count, sizeof *cards, slower);
}

/* Find the device that an entry of the mask names; return 0 where it names none. */
static int named(const char *entry, Device *found)
{
    int count = 0;
    char *end;
    long index = strtol(entry, &end, 10);
    if (isdigit((unsigned char)*entry) && !*end) {
        *found = (Device){&cards[index], -1};
        return index < card_count;
    }
    for (Card *card = cards; card < cards + card_count; card++) {
        if (!strncmp(entry, "GPU-", 4) && !strncmp(card->uuid, entry, strlen(entry))) {
            *found = (Device){card, -1};
            count++; /* an abbreviation must be of one card only */
        }
        for (int i = 0; i < card->instances; i++) {
            char place[160];
            sprintf(place, "MIG-%s/%d/%d", card->uuid, card->instance[i].gi,
                    card->instance[i].ci);
            if (!strcmp(entry, place) || !strcmp(entry, card->instance[i].uuid)) {
                *found = (Device){card, i};
                count++;
            }
        }
    }
    return count == 1;
}

static void apply_mask(void)
{
    const char *mask = getenv("CUDA_VISIBLE_DEVICES");
    if (!mask) {
        for (int i = 0; i < card_count; i++)
            devices[device_count++] = (Device){&cards[i], -1};
    } else {
        char *text = strdup(mask), *rest = text, *entry;
        while ((entry = strsep(&rest, ","))) {
            Device found;
            while (*entry == ' ')
                entry++;
            while (*entry && entry[strlen(entry) - 1] == ' ')
                entry[strlen(entry) - 1] = 0;
            if (!named(entry, &found))
                break;
            for (int i = 0; i < device_count; i++)
                if (devices[i].card == found.card && devices[i].instance == found.instance) {
                    device_count = 0;
                    free(text);
                    return;
                }
            devices[device_count++] = found;
        }
        free(text);
    }
    for (int i = 0; i < device_count; i++) /* one instance, and nothing beside it */
        if (devices[i].card->instances) {
            devices[0] = (Device){devices[i].card, devices[i].instance < 0 ? 0 : devices[i].instance};
            device_count = 1;
        }
}

int cuInit(unsigned flags)
{
    const char *fault = getenv("STAND_IN_CUDA_FAULT");
    note("cuInit");
    if (fault && !strcmp(fault, "hang"))
        sleep(3600);
    if (fault && !strcmp(fault, "crash"))
        abort();
    if (fault && *fault)
        return atoi(fault);
    card_count = device_count = 0;
    memset(cards, 0, sizeof cards);
    read_cards();
    apply_mask();
    return device_count ? 0 : NO_DEVICE;
}

int cuDeviceGetCount(int *count)
{
    note("cuDeviceGetCount");
    *count = device_count;
    return 0;
}

int cuDeviceGet(int *device, int ordinal)
{
    note("cuDeviceGet");
    *device = ordinal + HANDLE;
    return ordinal < device_count ? 0 : 101;
}

static int copy_uuid(unsigned char *raw, const char *text)
{
    int byte = 0;
    for (text += 4; *text && byte < 16; text++) /* after "GPU-" or "MIG-" */
        if (*text != '-') {
            sscanf(text, "%2hhx", &raw[byte++]);
            text++;
        }
    return 0;
}

int cuDeviceGetUuid(unsigned char *raw, int device)
{
    note("cuDeviceGetUuid");
    return copy_uuid(raw, DEVICE(device)->card->uuid);
}

int cuDeviceGetUuid_v2(unsigned char *raw, int device)
{
    const Device *of = DEVICE(device);
    note("cuDeviceGetUuid_v2");
    return copy_uuid(raw, of->instance < 0 ? of->card->uuid : of->card->instance[of->instance].uuid);
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    const Device *of = DEVICE(device);
    note("cuDeviceTotalMem_v2");
    *bytes = (size_t)(of->instance < 0 ? of->card->mib : of->card->instance[of->instance].mib) << 20;
    return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    note("cuDeviceGetAttribute");
    *value = DEVICE(device)->card->mode;
    return attribute == 20 ? 0 : 1; /* CU_DEVICE_ATTRIBUTE_COMPUTE_MODE */
}

int cuCtxCreate_v2(void **context, unsigned flags, int device)
{
    note("cuCtxCreate_v2");
    return 1;
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    note("cuDevicePrimaryCtxRetain");
    return 1;
}
