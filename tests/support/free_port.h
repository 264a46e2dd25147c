/* A port of 127.0.0.1 that nobody listens on. Below the range that the kernel takes the ports of
 * outgoing connections from: one of those could take it before the server does. */
#ifndef TESTS_SUPPORT_FREE_PORT_H
#define TESTS_SUPPORT_FREE_PORT_H

#include <arpa/inet.h>
#include <stdint.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

static inline int free_port(void)
{
    for (int tries = 0; tries < 100; tries++) {
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), failed;
        uint16_t port = 0;

        (void)!getrandom(&port, sizeof(port), 0);
        port = (uint16_t)(20000 + port % 12000);
        at.sin_port = htons(port);
        failed = fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at));
        close(fd);
        if (!failed)
            return port;
    }
    return -1;
}

#endif
