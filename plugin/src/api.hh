// The client library's interface, which differs between XRootD 5 and 6.
#pragma once

#include <XrdCl/XrdClDefaultEnv.hh>
#include <XrdCl/XrdClFile.hh>
#include <XrdCl/XrdClFileSystem.hh>
#include <XrdCl/XrdClLog.hh>
#include <XrdCl/XrdClPlugInInterface.hh>
#include <XrdVersion.hh>
#include <cstdint>
#include <ctime>

namespace forebay {

#define FOREBAY_XROOTD_MAJOR (XrdMajorVNUM(XrdVNUMBER))

#if FOREBAY_XROOTD_MAJOR >= 6
using Timeout = time_t;
#else
using Timeout = uint16_t;
#endif

using Status = XrdCl::XRootDStatus;

/// The topic of our lines in the client's log.
constexpr uint64_t kLogTopic = 0x4000000000000000;

}  // namespace forebay
