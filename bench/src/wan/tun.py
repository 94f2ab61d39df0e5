"""Creates network interfaces and passes them to the program that moves their packets.

tun.py pieces|packets NAME...: makes the interfaces NAME in this process's network namespace and sends their file descriptors over
the socket that is the standard input. A read returns a packet that the system sends, a write delivers a packet to it.
With `pieces` each packet has a virtio_net_hdr before it and TCP segments come in one piece of up to 64 KiB, without a
checksum: the cost of a path is then per piece, not per 1500 bytes.
"""

import fcntl
import os
import socket
import struct
import sys

# <linux/if_tun.h>
TUNSETIFF = 0x400454CA
TUNSETOFFLOAD = 0x400454D0
IFF_TUN = 0x0001
IFF_NO_PI = 0x1000
IFF_VNET_HDR = 0x4000
TUN_F_CSUM = 0x01
TUN_F_TSO4 = 0x02


def interface(name, pieces):
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    flags = IFF_TUN | IFF_NO_PI | (IFF_VNET_HDR if pieces else 0)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), flags))
    if pieces:
        fcntl.ioctl(device, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4)
    return device


try:
    devices = [interface(name, sys.argv[1] == "pieces") for name in sys.argv[2:]]
except OSError as error:
    sys.exit(f"/dev/net/tun: {error.strerror}")
socket.send_fds(socket.socket(fileno=0), [b"."], devices)
