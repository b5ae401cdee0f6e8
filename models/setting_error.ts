/** A value of a request that a model does not take, which names what is wrong. */
export class SettingError extends RangeError {
  /** A setting, or another property of requests, such as `numFrames`. */
  readonly setting: string;

  constructor(setting: string, message: string) {
    super(message);
    this.setting = setting;
  }
}
