// Keeps the lock on its own memory map: one thread reads through /proc/self/mem a page that the daemon behind the file does not serve, which
// holds the lock for reading; another one wants to write, and everyone who asks afterwards what is mapped here waits behind it.
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

static char *page;
volatile unsigned long held_sink;

__attribute__((noinline)) void held_work(void) {
    for (long i = 0; i < 100000; i++)
        held_sink = held_sink * 3 + i;
}

static void *reads(void *unused) {
    char byte;
    int memory = open("/proc/self/mem", O_RDONLY);
    sleep(1);
    pread(memory, &byte, 1, (off_t)page);
    return unused;
}

static void *writes(void *unused) {
    sleep(2);
    for (;;)
        munmap(mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096);
    return unused;
}

int main(int count, char **words) {
    int file = count > 1 ? open(words[1], O_RDONLY) : -1;
    page = mmap(0, 4096, PROT_READ, MAP_SHARED, file, 0);
    pthread_t reader, writer;
    if (page == MAP_FAILED || pthread_create(&reader, 0, reads, 0) || pthread_create(&writer, 0, writes, 0))
        return 1;
    for (;;)
        held_work();
}
