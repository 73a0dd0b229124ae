#include "proxy/exchange/connect_failure.hpp"

#include <gtest/gtest.h>

#include <utility>

namespace weir::proxy::exchange {
namespace {

TEST(ConnectFailure, IsATable) {
  using enum balancer::story::ConnectFailure;
  const std::pair<int, balancer::story::ConnectFailure> rows[]{
      {ECONNREFUSED, refused},     {ENOENT, refused},        {ETIMEDOUT, timed_out},
      {EAGAIN, backlog_full},      {EHOSTUNREACH, other},    {ECONNRESET, other},
      {EMFILE, local_shortage},    {ENFILE, local_shortage}, {EADDRNOTAVAIL, local_shortage},
      {ENOBUFS, local_shortage},   {ENOMEM, local_shortage}, {net::name_unknown, no_address}};
  for (const auto& [error, failure] : rows) EXPECT_EQ(connect_failure_of(error), failure) << error;
}

}  // namespace
}  // namespace weir::proxy::exchange
