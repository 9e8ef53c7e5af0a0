// Functions of the C library that it has five times each, for kinds of processors, and of which none is in a hot path of
// init. hack/small-cc links these in their place: 100 kB less. They compare in the C locale, which init never leaves.

#include <stddef.h>

static int lower(unsigned char c) {
    return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
}

int strncasecmp(const char *a, const char *b, size_t most) {
    for (; most > 0; a++, b++, most--) {
        int difference = lower((unsigned char)*a) - lower((unsigned char)*b);
        if (difference != 0 || *a == '\0') {
            return difference;
        }
    }
    return 0;
}

int strcasecmp(const char *a, const char *b) {
    return strncasecmp(a, b, (size_t)-1);
}

int strcasecmp_l(const char *a, const char *b, void *locale) {
    (void)locale;
    return strcasecmp(a, b);
}

int strncasecmp_l(const char *a, const char *b, size_t most, void *locale) {
    (void)locale;
    return strncasecmp(a, b, most);
}

int strncmp(const char *a, const char *b, size_t most) {
    for (; most > 0; a++, b++, most--) {
        int difference = (unsigned char)*a - (unsigned char)*b;
        if (difference != 0 || *a == '\0') {
            return difference;
        }
    }
    return 0;
}

int strcmp(const char *a, const char *b) {
    return strncmp(a, b, (size_t)-1);
}

char *stpncpy(char *to, const char *from, size_t size) {
    for (; size > 0 && *from != '\0'; size--) {
        *to++ = *from++;
    }
    for (size_t i = 0; i < size; i++) {
        to[i] = '\0';
    }
    return to;
}

char *strncpy(char *to, const char *from, size_t size) {
    stpncpy(to, from, size);
    return to;
}

char *stpcpy(char *to, const char *from) {
    for (; (*to = *from) != '\0'; to++, from++) {
    }
    return to;
}

char *strcpy(char *to, const char *from) {
    stpcpy(to, from);
    return to;
}

#define ALIAS(name, of) extern __typeof(of) name __attribute__((alias(#of)))
ALIAS(__strcasecmp, strcasecmp);
ALIAS(__strncasecmp, strncasecmp);
ALIAS(__strcasecmp_l, strcasecmp_l);
ALIAS(__strncasecmp_l, strncasecmp_l);
ALIAS(__stpncpy, stpncpy);
ALIAS(__stpcpy, stpcpy);
