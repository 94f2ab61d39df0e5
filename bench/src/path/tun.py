"""Makes two network interfaces whose packets a program moves, and becomes that program.

tun.py NAME NAME PROGRAM [ARGUMENT...]: PROGRAM finds the interfaces as its file descriptors 0 and 1. A read takes a packet that
the system sends, a write hands it one that it receives; each packet has a virtio_net_hdr before it. TCP segments come in
one piece of up to 64 KiB, without a checksum: what a path costs is per piece then, not per 1500 bytes.
"""

import fcntl
import os
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


def interface(name):
    device = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI | IFF_VNET_HDR))
    fcntl.ioctl(device, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4)
    return device


devices = [interface(name) for name in sys.argv[1:3]]
for descriptor, device in enumerate(devices):
    os.dup2(device, descriptor)
os.execv(sys.argv[3], sys.argv[3:])
