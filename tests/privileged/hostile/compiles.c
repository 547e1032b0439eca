// Runs code that no file holds, and writes down for the test where it is: compiles FILE.
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// No variable of its own, no call: it runs wherever it lies. It sleeps in what calls it, so that many of them leave the CPUs to others.
__attribute__((noinline, aligned(64))) static unsigned long work(unsigned long x) {
    for (long i = 0; i < 1000000; i++)
        x = x * 6364136223846793005UL + i;
    return x;
}

int main(int count, char **words) {
    unsigned char *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    FILE *said = count > 1 ? fopen(words[1], "w") : 0;
    if (code == MAP_FAILED || !said)
        return 1;
    memcpy(code, (void *)work, 256);
    __builtin___clear_cache((char *)code, (char *)code + 256);
    fprintf(said, "%lx\n", (unsigned long)code);
    fclose(said);
    unsigned long (*compiled)(unsigned long) = (void *)code;
    for (volatile unsigned long x = 1;; usleep(2000))
        x = compiled(x);
}
