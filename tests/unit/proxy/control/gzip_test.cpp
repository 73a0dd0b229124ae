#include "proxy/control/gzip.hpp"

#include <gtest/gtest.h>
#include <zlib.h>

#include <random>

namespace weir::proxy::control {
namespace {

TEST(AcceptsGzip, ByNameOrByStarUnlessItsWeightIsZero) {
  const struct {
    const char* field;
    bool accepted;
  } cases[]{
      {"", false},
      {"gzip", true},
      {"GZip", true},
      {"x-gzip", true},
      {"deflate, gzip;q=1.0, *;q=0.5", true},
      {"gzip;q=0", false},
      {"gzip; q=0.000", false},
      {"gzip ;\tQ=0.0", false},
      {"gzip;q=0.001", true},
      {"gzip;level=9;q=0", false},
      {"*", true},
      {"*;q=0", false},
      {"*;q=0, gzip", true},
      {"gzip;q=0, *", false},
      {"identity", false},
      {"br, zstd", false},
      {"gzipped", false},
      {", ,gzip", true},
      {";q=0", false},
      {"gzip;q", true},
  };
  for (const auto& [field, accepted] : cases) EXPECT_EQ(accepts_gzip(field), accepted) << field;
}

std::string unzipped(const std::string& packed) {
  z_stream stream{};
  EXPECT_EQ(::inflateInit2(&stream, 15 + 16), Z_OK) << "gzip alone, no raw deflate";
  std::string out(2'000'000, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(::inflate(&stream, Z_FINISH), Z_STREAM_END);
  EXPECT_EQ(stream.avail_in, 0U) << "nothing behind the end";
  out.resize(stream.total_out);
  ::inflateEnd(&stream);
  return out;
}

TEST(Gzip, IsReadBackAsItWas) {
  std::mt19937 random(7);
  std::string noise(300'000, '\0');
  for (auto& byte : noise) byte = static_cast<char>(random());
  const std::string repeated(1'000'000, 'a');
  for (const std::string& text : {std::string(), std::string("a"), noise, repeated})
    EXPECT_EQ(unzipped(gzip(text)), text);
  EXPECT_LT(gzip(repeated).size(), 10'000U);
}

}  // namespace
}  // namespace weir::proxy::control
