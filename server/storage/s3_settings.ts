/** Which bucket results go to. */

/** A bucket and the right to write to it. */
export interface S3Settings {
  /** Name of the bucket. */
  bucket: string;
  /** Address of a store other than Amazon's, without the bucket. */
  endpoint?: string;
  /** Region that requests are signed for. */
  region: string;
  /** Public part of the key. */
  accessKeyId: string;
  /** Secret part of the key. */
  secretAccessKey: string;
  /** Goes with keys that are lent. */
  sessionToken?: string;
}

/** What the command line says of a bucket. */
export interface S3Flags {
  /** Name of the bucket. */
  bucket?: string | undefined;
  /** Address of the store. */
  endpoint?: string | undefined;
  /** Region of the bucket. */
  region?: string | undefined;
}

const DEFAULT_REGION = "us-east-1";

/**
 * Puts flags and environment together; flags win. Keys come from the environment alone, where other
 * users of the machine cannot see them.
 *
 * @param flags of the command line
 * @param env reads a variable: those of the reference service, `SGLANG_S3_…` with
 * `SGLANG_CLOUD_STORAGE_TYPE=s3`, and Amazon's own
 * @returns the bucket; undefined when none is named
 * @throws {TypeError} for a bucket without a key and for names and addresses that cannot be
 */
export function readS3Settings(
  flags: S3Flags,
  env: (name: string) => string | undefined,
): S3Settings | undefined {
  const read = (...names: string[]) => names.map(env).find((value) => value) ?? undefined;
  const isOn = env("SGLANG_CLOUD_STORAGE_TYPE")?.toLowerCase() === "s3";
  const fromEnv = (name: string) => isOn ? read(name) : undefined;
  const bucket = flags.bucket ?? fromEnv("SGLANG_S3_BUCKET_NAME");
  if (bucket === undefined) {
    const isMeant = isOn || flags.endpoint !== undefined || flags.region !== undefined;
    if (!isMeant) return undefined;
    throw new TypeError(
      "Cannot keep results in S3: no bucket is named; set --s3-bucket or SGLANG_S3_BUCKET_NAME",
    );
  }
  if (!/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(bucket)) {
    throw new TypeError(
      `Cannot keep results in S3: ${JSON.stringify(bucket)} is no name of a bucket`,
    );
  }
  const endpoint = flags.endpoint ?? fromEnv("SGLANG_S3_ENDPOINT_URL");
  const region = flags.region ?? fromEnv("SGLANG_S3_REGION_NAME") ??
    read("AWS_REGION", "AWS_DEFAULT_REGION") ?? DEFAULT_REGION;
  const accessKeyId = read("SGLANG_S3_ACCESS_KEY_ID", "AWS_ACCESS_KEY_ID");
  const secretAccessKey = read("SGLANG_S3_SECRET_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY");
  const isLent = !read("SGLANG_S3_ACCESS_KEY_ID");
  const sessionToken = isLent ? read("AWS_SESSION_TOKEN") : undefined;
  if (accessKeyId === undefined || secretAccessKey === undefined) {
    throw new TypeError(
      `Cannot keep results in the bucket ${bucket}: there is no key to it; set ` +
        "SGLANG_S3_ACCESS_KEY_ID and SGLANG_S3_SECRET_ACCESS_KEY",
    );
  }
  return {
    bucket,
    region,
    accessKeyId,
    secretAccessKey,
    ...(endpoint === undefined ? {} : { endpoint: checkEndpoint(endpoint) }),
    ...(sessionToken === undefined ? {} : { sessionToken }),
  };
}

/** The address of a bucket, without a slash at the end. */
export function bucketUrl({ bucket, endpoint, region }: S3Settings): string {
  return endpoint === undefined
    ? `https://${bucket}.s3.${region}.amazonaws.com`
    : `${endpoint}/${bucket}`;
}

function checkEndpoint(text: string): string {
  const url = URL.parse(text);
  const isPlain = url && /^https?:$/.test(url.protocol) && !url.search && !url.hash &&
    !url.username;
  if (isPlain) return url.href.replace(/(?<!\/)\/+$/, "");
  throw new TypeError(
    `Cannot use the S3 endpoint ${JSON.stringify(text)}: it must be an http or https address`,
  );
}
