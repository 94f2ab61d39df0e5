// The boundary to the client library, which no exception crosses.
#pragma once

#include <exception>
#include <utility>

#include "api.hh"

namespace forebay {

/// Calls a function; an exception becomes an error status.
template <typename Function>
Status guarded(Function&& function) noexcept {
    try {
        return std::forward<Function>(function)();
    } catch (const std::exception& error) {
        return Status(XrdCl::stError, XrdCl::errInternal, 0, error.what());
    }
}

}  // namespace forebay
