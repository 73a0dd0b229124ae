// Every coroutine that runs on an io_context has this type.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace weir::proxy::net {

template <class T>
using Awaitable = boost::asio::awaitable<T, boost::asio::io_context::executor_type>;
using use_awaitable_t = boost::asio::use_awaitable_t<boost::asio::io_context::executor_type>;
inline constexpr use_awaitable_t use_awaitable{};

}  // namespace weir::proxy::net
