// Everything that waits on an io_context uses this timer: it takes the context's executor without a type-erased one.
#pragma once

#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>

namespace weir::proxy::net {

using Timer =
    boost::asio::basic_waitable_timer<std::chrono::steady_clock, boost::asio::wait_traits<std::chrono::steady_clock>,
                                      boost::asio::io_context::executor_type>;

}  // namespace weir::proxy::net
