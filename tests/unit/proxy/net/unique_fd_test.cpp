#include "proxy/net/unique_fd.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

namespace weir::proxy::net {
namespace {

int duplicate() { return ::fcntl(0, F_DUPFD_CLOEXEC, 0); }
bool is_open(int fd) { return ::fcntl(fd, F_GETFD) != -1; }

TEST(UniqueFd, ClosesWhatItOwnsAtItsEnd) {
  const int fd = duplicate();
  {
    const UniqueFd owner(fd);
    EXPECT_TRUE(is_open(fd));
  }
  EXPECT_FALSE(is_open(fd));
}

TEST(UniqueFd, ClosesWhatItOwnedWhenItTakesAnother) {
  const int first = duplicate(), second = duplicate();
  UniqueFd owner(first), other(second);
  owner = std::move(other);
  EXPECT_FALSE(is_open(first));
  EXPECT_TRUE(is_open(second));
  EXPECT_EQ(owner.get(), second);
  EXPECT_FALSE(other);  // NOLINT(bugprone-use-after-move): it owns nothing now.
  owner.reset();
  EXPECT_FALSE(is_open(second));
}

TEST(UniqueFd, ReleasesWithoutClosing) {
  const int fd = duplicate();
  UniqueFd owner(fd);
  EXPECT_EQ(owner.release(), fd);
  EXPECT_FALSE(owner);
  EXPECT_TRUE(is_open(fd));
  owner.reset(fd);
}

}  // namespace
}  // namespace weir::proxy::net
