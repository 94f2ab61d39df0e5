/* Reads files by libdcap, as told by lines on standard input. After each line it writes `RESULT ERRNO` and, for reads, the bytes.
 *
 *     open URL | openw URL | dup | close | read LEN | pread OFFSET LEN | seek OFFSET WHENCE
 *     vector (OFFSET LEN)... | size URL | lsize URL | fsize | mode URL | check URL | access URL | unlink URL | unbuffered
 */
#include <dcap.h>
#include <dcap_errno.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PARTS_MAX 2048
#define LINE_MAX_LEN 65536

static void answer(long long result, const char *bytes)
{
    printf("%lld %d\n", result, result < 0 ? errno : 0);
    if (bytes != NULL && result > 0)
        fwrite(bytes, 1, (size_t)result, stdout);
    fflush(stdout);
}

static void read_at(int fd, const char *offset, size_t len)
{
    char *bytes = malloc(len + 1);
    long long got = offset != NULL ? dc_pread64(fd, bytes, len, atoll(offset)) : dc_read(fd, bytes, len);
    answer(got, bytes);
    free(bytes);
}

static void read_vector(int fd, char *rest)
{
    static iovec2 parts[PARTS_MAX];
    long long total = 0;
    int count = 0;
    for (char *word; count < PARTS_MAX && (word = strtok(rest, " ")) != NULL; rest = NULL, count++) {
        parts[count].offset = atoll(word);
        parts[count].len = atoi(strtok(NULL, " "));
        total += parts[count].len;
    }
    char *bytes = malloc((size_t)total + 1), *next = bytes;
    for (int i = 0; i < count; next += parts[i++].len)
        parts[i].buf = next;
    int result = dc_readv2(fd, parts, count);
    answer(result < 0 ? result : total, bytes);
    free(bytes);
}

int main(void)
{
    static char line[LINE_MAX_LEN];
    int fd = -1;
    while (fgets(line, sizeof line, stdin) != NULL) {
        struct stat64 found = {0};
        line[strcspn(line, "\n")] = '\0';
        char *verb = strtok(line, " "), *rest = strtok(NULL, "");
        errno = 0;
        if (strcmp(verb, "open") == 0)
            answer(fd = dc_open(rest, O_RDONLY), NULL);
        else if (strcmp(verb, "openw") == 0)
            answer(dc_open(rest, O_WRONLY | O_CREAT, 0644), NULL);
        else if (strcmp(verb, "dup") == 0)
            answer(dc_dup(fd), NULL);
        else if (strcmp(verb, "close") == 0)
            answer(dc_close(fd), NULL);
        else if (strcmp(verb, "read") == 0)
            read_at(fd, NULL, (size_t)atoll(rest));
        else if (strcmp(verb, "pread") == 0) {
            char *offset = strtok(rest, " ");
            read_at(fd, offset, (size_t)atoll(strtok(NULL, " ")));
        } else if (strcmp(verb, "seek") == 0) {
            char *offset = strtok(rest, " ");
            answer(dc_lseek64(fd, atoll(offset), atoi(strtok(NULL, " "))), NULL);
        } else if (strcmp(verb, "vector") == 0)
            read_vector(fd, rest);
        else if (strcmp(verb, "size") == 0)
            answer(dc_stat64(rest, &found) == 0 ? found.st_size : -1, NULL);
        else if (strcmp(verb, "lsize") == 0)
            answer(dc_lstat64(rest, &found) == 0 ? found.st_size : -1, NULL);
        else if (strcmp(verb, "fsize") == 0)
            answer(dc_fstat64(fd, &found) == 0 ? found.st_size : -1, NULL);
        else if (strcmp(verb, "mode") == 0)
            answer(dc_stat64(rest, &found) == 0 ? (long long)found.st_mode : -1, NULL);
        else if (strcmp(verb, "check") == 0)
            answer(dc_check(rest, "test"), NULL);
        else if (strcmp(verb, "access") == 0)
            answer(dc_access(rest, R_OK), NULL);
        else if (strcmp(verb, "unlink") == 0)
            answer(dc_unlink(rest), NULL);
        else if (strcmp(verb, "unbuffered") == 0) {
            dc_noBuffering(fd);
            answer(0, NULL);
        } else
            answer(-2, NULL);
    }
    return 0;
}
